//go:build hosts

package recovery

import (
	"strings"
	"testing"

	"teleport-update/integration/scenes"
)

// Once a version is proven there is only forward, whoever takes away links, unit
// and enablement before it is committed: the removal of an old package does all
// of this.
func TestAProvenVersionEndsWholeWhateverIsTakenAway(t *testing.T) {
	t.Parallel()
	const (
		links     = "rm " + linkDir + "/teleport " + linkDir + "/tsh; "
		unit      = "rm " + unitFile + "; "
		enabled   = "rm " + scenes.AgentWants + "; "
		timer     = "rm /etc/systemd/system/timers.target.wants/teleport-update.timer; "
		reload    = "systemctl daemon-reload; "
		stop      = "systemctl stop teleport; "
		foreigner = "rm " + linkDir + "/tbot; echo mine >" + linkDir + "/tbot; "
	)
	for _, tc := range []struct {
		name, taken string
		cut         bool // power is cut, and the next boot comes before the next run
		restarts    bool
		disabled    bool // a person has not enabled the agent
	}{
		{name: "nothing"},
		{name: "nothing, then a power cut", cut: true, restarts: true},
		{name: "links", taken: links},
		{name: "the unit", taken: unit + reload},
		{name: "enablement", taken: enabled + reload},
		{name: "the timer's enablement", taken: timer},
		{name: "a link, for a file", taken: foreigner},
		{name: "all of it, and the agent is stopped", taken: stop + links + unit + enabled + timer + reload, restarts: true},
		{name: "all of it, the agent is stopped, then a power cut", taken: stop + links + unit + enabled + reload, cut: true, restarts: true},
		{name: "the unit, then a power cut", taken: unit, cut: true, restarts: true},
		{name: "nothing of an agent that is not enabled", disabled: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t)
			s.Sound("1.0.0", "1.1.0")
			s.RunsOn("1.0.0")
			if tc.disabled {
				s.Must("systemctl", "disable", "teleport")
			}
			s.Wants("1.1.0")
			s.KilledInMidWatch("1.1.0")
			s.provenSince(!tc.disabled)
			before := s.Seen()
			if tc.taken != "" {
				s.Must("sh", "-ec", tc.taken)
			}
			if tc.cut {
				if err := s.Kill(); err != nil {
					t.Fatal(err)
				}
				if err := s.Boot(t.Context()); err != nil {
					t.Fatal(err)
				}
				s.LinkedFiles("1.1.0")
			}
			if code := s.Tick(); code != 0 {
				t.Errorf("the tick that commits the version ends with %d", code)
			}
			s.Serves("1.1.0")
			if got := before.Became(s.Seen()); (got == scenes.Restarted) != tc.restarts {
				t.Errorf("the agent was %s", got)
			}
			if got, want := s.Try("systemctl", "is-enabled", "teleport").Stdout, "enabled"; strings.TrimSpace(got) != want && !tc.disabled {
				t.Errorf("the agent is %s; want %s", got, want)
			}
			if s.Exists(scenes.AgentWants) == tc.disabled {
				t.Errorf("%s is there: %v", scenes.AgentWants, !tc.disabled)
			}
			if out := s.Try(updater, "verify"); out.Code != 0 {
				t.Errorf("verify is not content:\n%s%s", out.Stdout, out.Stderr)
			}
			if err := s.Reboot(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !tc.disabled {
				s.Serves("1.1.0")
			}
			s.Tidy()
		})
	}
}

// provenSince makes the journal of a transaction that was killed in mid-watch that of
// one which was killed right after it.
func (s *scene) provenSince(enabled bool) {
	s.T.Helper()
	s.EditJournal(func(j map[string]any) {
		j["phase"] = "proven"
		if enabled {
			j["agent"].(map[string]any)["enabled_by"] = []string{scenes.AgentWants}
		}
	})
}
