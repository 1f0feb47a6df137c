package main

import (
	"path/filepath"
	"slices"
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
		{"autoupdate update --schedule regular --group dev --set-start-hour=3", "autoupdate_config changed"},
		{"autoupdate update --schedule regular --group dev --set-jitter-seconds 60", "autoupdate_config changed"},
		{"get autoupdate_config", "start_hour: 3"},
		{"get autoupdate_config", "jitter_seconds: 60"},
		{"autoupdate run --group dev --dry-run", "dev"},
		{"autoupdate agents start-update dev", "dev"},
		{"autoupdate agents mark-done dev", "dev"},
		{"autoupdate agents report", "1 host has joined"},
		{"autoupdate reset", "the rollout is a new one, and unstarted"},
		{"get autoupdate_agent_rollouts", "kind: autoupdate_agent_rollout\n"},
		{"get autoupdate_agent_reports", "no server has written an autoupdate_agent_report in"},
	} {
		if out := s.run(step.command); !strings.Contains(out, step.says) {
			t.Errorf("%s says\n%s\nwant %s", step.command, out, step.says)
		}
	}
	for _, words := range [][]string{{"update", "now"}, {"agents"}, {}} {
		if ours, ok := fromTctl(words); ok && !slices.Equal(ours, []string{"set-version", "now"}) {
			t.Errorf("%q is %q", words, ours)
		}
	}
}
