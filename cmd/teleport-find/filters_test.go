package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

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
	for flags, want := range map[string]string{
		"--group typo":                "no host names the group \"typo\", and there is no rollout\n(exit code 1)",
		"--group typo --state failed": "no host names the group \"typo\", and there is no rollout\n(exit code 1)",
		"--group dev --state failed":  "HOST",
	} {
		if out := s.run("hosts " + flags); !strings.Contains(out, want) {
			t.Errorf("hosts %s:\n%s\nwant %s", flags, out, want)
		}
	}
	if out := s.run("hosts --state faild"); !strings.Contains(out, "is not one of [revoked cloned absent on_target failed") || !strings.Contains(out, "exit code") {
		t.Errorf("a state that there is not:\n%s", out)
	}
}

// After a rollback, the hosts that are on the version of the rollback are where they are to be, and those that cannot go
// there are shown with their error.
func TestTheHostsOfAGroupThatWasRolledBack(t *testing.T) {
	s := newStation(t, map[string]int{"prod": 3})
	write(t, filepath.Join(s.dir, "groups.yaml"), oneHour)
	look := func(when, headline string, states ...string) {
		t.Helper()
		if out := s.run("status"); !strings.Contains(out, headline) {
			t.Errorf("%s, status says\n%s\nwant %s", when, out, headline)
		}
		out := s.run("hosts")
		for i, state := range states {
			if line := regexp.MustCompile(fmt.Sprintf(`(?m)^prod-%d .*$`, i+1)).FindString(out); !strings.Contains(line, "  "+state+"  ") {
				t.Errorf("%s, prod-%d is not %s:\n%s", when, i+1, state, out)
			}
		}
	}
	s.run("apply -f groups.yaml")
	s.run("set-version 15.2.0 --start 15.1.1")
	s.run("rollout start prod --force")
	s.pass(10 * time.Minute)
	look("on their way", "", "updating", "updating", "updating")
	if out := s.run("status -o json"); !strings.Contains(out, `"updating_count":3`) {
		t.Errorf("three hosts update, and status says\n%s", out)
	}
	s.pass(10 * time.Minute)
	look("updated", "", "on_target", "on_target", "on_target")
	s.run("rollout back prod")
	look("rolled back", "its hosts are told to go back to 15.1.1; 0 of 3 hosts are there", "waiting", "waiting", "waiting")
	s.pass(20*time.Minute, "prod-3")
	look("gone back", "its hosts are told to go back to 15.1.1; 2 of 3 hosts are there", "on_target", "on_target", "failed")
	if out := s.run("status"); !regexp.MustCompile(`prod-3 .* prod +15\.2\.0 .* the agent died`).MatchString(out) {
		t.Errorf("a host that cannot go back is not shown:\n%s", out)
	}
}
