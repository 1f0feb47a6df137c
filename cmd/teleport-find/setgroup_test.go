package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Single fields of a group are changed, and all else stays as it is; what cannot be meant is refused as in a file.
func TestSingleFieldsOfAGroupAreChanged(t *testing.T) {
	s := newStation(t, map[string]int{"dev": 1})
	write(t, filepath.Join(s.dir, "groups.yaml"), schedule)
	s.run("apply -f groups.yaml")
	before := s.run("get autoupdate_config")
	for _, step := range []struct{ command, says, has string }{
		{"set-group dev --start-hour 14 --dry-run", "autoupdate_config would be changed (a dry run)", "start_hour: 13"},
		{"set-group dev --start-hour 14", "autoupdate_config changed", "start_hour: 14"},
		{"set-group --days mon,Friday,Tuesday,Wed,Thu dev --jitter-seconds=60", "autoupdate_config changed", "        - name: dev\n          days: [Mon, Fri, Tue, Wed, Thu]\n"},
		{"set-group prod --max-in-flight 25% --requires dev", "autoupdate_config changed", "max_in_flight: 25%"},
		{"set-group staging --canary-count 0", "autoupdate_config changed", "        - name: staging\n"},
		{"set-group dev --start-hour 24 --days Someday", "spec.agents.schedules.regular[0].start_hour: 24 is not an hour from 0 to 23", "start_hour: 14"},
		{"set-group dev --start-hour four", "spec.agents.schedules.regular[0].start_hour: want a whole number", "start_hour: 14"},
		{"set-group nope --start-hour 4", `the schedule regular has no group "nope" (there are: dev, staging, prod)`, "start_hour: 14"},
		{"set-group dev --start-hour 4 --schedule critical", `the schedule critical has no group "dev"`, "start_hour: 14"},
		{"set-group dev", "set-group sets which field?", "start_hour: 14"},
		{"set-group dev --jitter-seconds= --days *", "autoupdate_config changed", "start_hour: 14"},
	} {
		if out := s.run(step.command); !strings.Contains(out, step.says) {
			t.Errorf("%s says\n%s\nwant %s", step.command, out, step.says)
		}
		if now := s.run("get autoupdate_config"); !strings.Contains(now, step.has) {
			t.Errorf("after %s there is\n%s\nwant %s", step.command, now, step.has)
		}
	}
	for _, field := range []string{"set-group dev --start-hour 13", "set-group staging --canary-count 3", "set-group prod --max-in-flight 10% --requires="} {
		s.run(field)
	}
	if now := s.run("get autoupdate_config"); withoutRevision(now) != withoutRevision(before) {
		t.Errorf("each field is as it was, and there is\n%s\nwant\n%s", now, before)
	}
	if out := s.run("reset-config"); !strings.Contains(out, "autoupdate_config changed") {
		t.Errorf("reset-config says\n%s", out)
	}
	if now := s.run("get autoupdate_config"); strings.Contains(now, "dev") || strings.Contains(now, "mode") {
		t.Errorf("after reset-config there is\n%s", now)
	}
}

func withoutRevision(text string) string {
	lines := strings.Split(text, "\n")
	kept := lines[:0]
	for _, line := range lines {
		if !strings.Contains(line, "revision:") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// What RFD 0169 calls run is retry of a group that is halted, and start-update of any other; its --group is a word.
func TestRunAndGroupAreAsInTheRFD(t *testing.T) {
	s := newStation(t, map[string]int{"dev": 2, "prod": 1})
	write(t, filepath.Join(s.dir, "groups.yaml"), strings.Replace(oneHour, "start_hour: 11}", "start_hour: 11, max_failed_before_halt: 0%}", 1))
	s.run("apply -f groups.yaml")
	s.run("set-version 15.2.0")
	s.pass(40*time.Minute, "dev-1")
	if out := s.run("status --group dev"); !strings.Contains(out, "halted") || strings.Contains(out, "\nprod") {
		t.Fatalf("status --group dev:\n%s", out)
	}
	if out := s.run("status dev --group prod"); !strings.Contains(out, "status takes one group") {
		t.Errorf("two groups:\n%s", out)
	}
	if out := s.run("run --group dev"); !strings.Contains(out, "dev is active, from its beginning") {
		t.Errorf("run of a halted group:\n%s", out)
	}
	if out := s.run("run prod"); !strings.Contains(out, "group dev comes before it, and is not done") {
		t.Errorf("run of another:\n%s", out)
	}
}
