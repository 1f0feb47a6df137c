package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// What people know from tctl does here what it does there.
func TestTheCommandsOfTctl(t *testing.T) {
	s := newStation(t, map[string]int{"dev": 1})
	write(t, filepath.Join(s.dir, "groups.yaml"), schedule)
	s.run("apply -f groups.yaml")
	for _, step := range []struct{ command, says string }{
		{"autoupdate update --set-agent-version=15.2.0 --schedule regular", "autoupdate_version created"},
		{"autoupdate update --set-agent-version 15.2.0 --set-start-version 15.1.1", "the group starts"},
		{"autoupdate status", "15.2.0, schedule regular"},
		{"autoupdate status --group dev", "dev"},
		{"autoupdate update --set-agent-auto-update=off", "autoupdate_config changed"},
		{"autoupdate update --set-agent-auto-update=on", "autoupdate_config changed"},
		{"autoupdate update --set-agent-version=15.3.0 --critical", "autoupdate_version changed"},
		{"autoupdate update --set-agent-version=15.2.0 --schedule regular", "autoupdate_version changed"},
		{"autoupdate run --group dev --dry-run", "dev"},
		{"autoupdate agents start-update dev", "dev"},
		{"autoupdate agents mark-done dev", "dev"},
		{"autoupdate agents status", "15.2.0, schedule regular"},
		{"autoupdate agents report", "15.2.0, schedule regular"},
		{"autoupdate update --schedule regular --group dev --set-start-hour=3", "set-version has no flag --set-start-hour=3\n(exit code 2)"},
		{"autoupdate update now", "version \"now\""},
		{"autoupdate agents", "there is no command \"autoupdate\""},
		{"autoupdate", "there is no command \"autoupdate\""},
		{"get autoupdate_agent_rollouts", "kind: autoupdate_agent_rollout\n"},
		{"get autoupdate_agent_reports", "no server has written an autoupdate_agent_report in"},
		{"get autoupdate_agent_reports/web", "there is no autoupdate_agent_report web in the store"},
		{"tokens", "TOKEN"},
		{"host dev-1", "The host is in group dev."},
	} {
		if out := s.run(step.command); !strings.Contains(out, step.says) {
			t.Errorf("%s says\n%s\nwant %s", step.command, out, step.says)
		}
	}
}

func TestASwitchOfTctlKeepsItsValue(t *testing.T) {
	words := strings.Fields("autoupdate agents start-update --group=dev --force=true")
	if got, want := strings.Join(unaliased(words), " "), "rollout start dev --force=true"; got != want {
		t.Errorf("%q became %q; want %q", words, got, want)
	}
}
