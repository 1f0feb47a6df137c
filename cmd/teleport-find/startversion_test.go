package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// The first version that goes from group to group starts from what hosts run, though no rollout has counted them yet: new
// hosts are told the target with the turn of their group, and not before. Without hosts, people are told what is taken.
func TestTheFirstVersionStartsFromWhatHostsRun(t *testing.T) {
	if testing.Short() {
		t.Skip("servers are started and stopped again and again")
	}
	for _, tc := range []struct {
		name   string
		hosts  map[string]int
		before []string
		start  string
		said   []string
	}{
		{"with hosts", map[string]int{"dev": 3, "prod": 2}, nil, "15.1.1", []string{"the start version is 15.1.1"}},
		{"with hosts of a group that no schedule has", map[string]int{"typo": 1}, nil, "15.1.1", []string{"the start version is 15.1.1"}},
		{"after a version for every host at once", map[string]int{"dev": 3}, []string{"set-version 15.1.1 --schedule immediate"}, "15.1.1", []string{"the start version is 15.1.1"}},
		{"after the same version for every host at once, to which none has gone", map[string]int{"dev": 3}, []string{"set-version 15.2.0"}, "15.1.1", []string{"the start version is 15.1.1"}},
		{"without hosts", nil, nil, "15.2.0", []string{"warning: there is no start version other than 15.2.0"}},
		{"without hosts, after another version", nil, []string{"set-version 15.1.1 --schedule immediate"}, "15.1.1",
			[]string{"warning: no host reports what it runs: the start version is 15.1.1, the last one that came to all groups"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStation(t, tc.hosts)
			write(t, filepath.Join(s.dir, "groups.yaml"), schedule)
			for _, command := range tc.before {
				s.run(command)
				s.tick()
			}
			s.run("apply -f groups.yaml")
			for _, command := range []string{"set-version 15.2.0 --dry-run", "set-version 15.2.0"} {
				out := s.run(command)
				for _, want := range tc.said {
					if !strings.Contains(out, want) {
						t.Errorf("%s says\n%s\nand not %q", command, out, want)
					}
				}
			}
			for _, ticked := range []bool{false, true} {
				if ticked {
					s.tick()
				}
				out := s.run("hosts 0000ffff-0000-4000-8000-000000000000 --as-if --group prod")
				if !strings.Contains(out, "would be told "+tc.start+" oss, and to stay as it is") {
					t.Errorf("a new host of prod, ticked %v:\n%s", ticked, out)
				}
			}
		})
	}
}
