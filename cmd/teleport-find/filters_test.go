package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"teleport-update/find/server/adminapi"
)

// hosts lists those of a group, in a state, on a version, or all of these at once.
func TestHostsAreListedByGroupStateAndVersion(t *testing.T) {
	s := newStation(t, map[string]int{"dev": 3, "prod": 2})
	s.hosts["dev-2"].version = "15.2.0"
	s.report("dev-2", "")
	s.hosts["prod-1"].version = "15.2.0"
	s.report("prod-1", "")
	for flags, want := range map[string]string{
		"":                               "dev-1 dev-2 dev-3 prod-1 prod-2",
		"--group dev":                    "dev-1 dev-2 dev-3",
		"--version 15.2.0":               "dev-2 prod-1",
		"--version v15.2.0":              "dev-2 prod-1",
		"--version 15.1.1 --group prod":  "prod-2",
		"--state failed":                 "",
		"--state on_target":              "",
		"--state waiting --group prod":   "prod-1 prod-2",
		"--state failed --version 1.0.0": "",
		"--group typo":                   "",
	} {
		var known adminapi.Hosts
		out := s.run("hosts -o json " + flags)
		if err := json.Unmarshal([]byte(out), &known); err != nil {
			t.Errorf("hosts %s: %v\n%s", flags, err, out)
			continue
		}
		var names []string
		for _, h := range known.Hosts {
			names = append(names, h.Hostname)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != want {
			t.Errorf("hosts %s lists %q; want %q", flags, got, want)
		}
	}
	if out := s.run("hosts --state faild"); !strings.Contains(out, "is not one of [revoked cloned absent on_target failed") || !strings.Contains(out, "exit code") {
		t.Errorf("a state that there is not:\n%s", out)
	}
}
