package installer

import (
	"context"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/systemd"
)

// doesNotComeUp is an agent that systemd tries to start again and again.
func doesNotComeUp(u *systemd.Unit, executes *string) {
	u.ActiveState, u.SubState, u.NRestarts, *executes = "activating", "auto-restart", 40, ""
	u.Result, u.Exit = "exit-code", systemd.ExitStatus{Code: systemd.Exited, Status: 1}
}

// hostsCauses are what of the host's keeps each version from starting.
var hostsCauses = map[string]struct {
	agent func(u *systemd.Unit)
	says  string // of status
}{
	"a user that is back by now":     {func(u *systemd.Unit) { u.Exit.Status = 217 }, "systemd begins no process of it"},
	"no namespace":                   {func(u *systemd.Unit) { u.Exit.Status = 226 }, "systemd begins no process of it"},
	"a command before fails":         {func(u *systemd.Unit) { u.Exit = systemd.ExitStatus{} }, "systemd begins no process of it"},
	"a file that is back by now":     {func(u *systemd.Unit) { u.Result, u.Exit = "resources", systemd.ExitStatus{} }, "systemd begins no process of it"},
	"its unit starts something else": {func(u *systemd.Unit) { u.ExecStart = "/opt/other/bin/teleport" }, "/opt/other/bin/teleport"},
	"a unit that it needs is masked": {func(u *systemd.Unit) { u.Ties.Needs = []systemd.Need{{Setting: "Requires", Unit: "masked.service"}} }, "masked.service"},
}

// crashingHost is a host whose timer goes back from a version that crashes, and whose agent is as change has it.
func crashingHost(t *testing.T, unproven bool) (s *shelf, shows func(change func(u *systemd.Unit, executes *string))) {
	t.Helper()
	s = back(t)
	s.Machine.Now, s.Machine.Scheduled = func() time.Time { return noon }, true
	if s.c.Status.Unproven = unproven; unproven {
		s.c.Spec.Health.RollbackWindow = 0
	}
	s.save()
	tree, _, err := s.Machine.Active(s.c)
	must(t, err)
	must(t, s.Machine.Host.Repair(tree))
	return s, func(change func(u *systemd.Unit, executes *string)) {
		look := sightOf(s.Installer, change)
		s.Machine.Connect = func(ctx context.Context) (transaction.Agent, error) {
			a, err := look(ctx)
			shown := a.(seen)
			shown.units = only("masked.service", func(u *systemd.Unit) { u.LoadState = "masked" })
			return shown, err
		}
	}
}

func TestTheTimerLeavesNoVersionForWhatTheHostDoes(t *testing.T) {
	for _, unproven := range []bool{false, true} {
		for name, cause := range hostsCauses {
			s, shows := crashingHost(t, unproven)
			shows(func(u *systemd.Unit, executes *string) { doesNotComeUp(u, executes); cause.agent(u) })
			n := s.countsOnly()
			m := s.ticks()
			m.Unstable = &state.Unstable{Release: oss("1.1.0"), Count: 2, Since: noon, Last: noon} // for whatever was before
			must(t, m.Save(s.Machine.Host.Paths.Ticks()))
			must(t, s.beginTick().end(t.Context(), nil))
			if *n != 0 || s.ticks().Unstable != nil {
				t.Errorf("%s, unproven %t: %d transactions; unstable %+v", name, unproven, *n, s.ticks().Unstable)
			}
			// The cause is gone, and the restarts of before count for nothing.
			shows(func(u *systemd.Unit, _ *string) { u.NRestarts, u.Since = 60, noon.Add(-time.Second) })
			must(t, s.beginTick().end(t.Context(), nil))
			if *n != 0 || s.ticks().Unstable != nil {
				t.Errorf("%s, unproven %t, and it runs again: %d transactions; unstable %+v", name, unproven, *n, s.ticks().Unstable)
			}
		}
		s, shows := crashingHost(t, unproven)
		shows(doesNotComeUp)
		n := s.countsOnly()
		must(t, s.beginTick().end(t.Context(), nil))
		if *n != 1 {
			t.Errorf("a version that crashes, unproven %t: %d transactions", unproven, *n)
		}
	}
}

// A start that failed because somebody had taken a link says nothing about the version once the link is back.
func TestTheTimerLeavesNoVersionForAProgramThatIsBack(t *testing.T) {
	for _, unproven := range []bool{false, true} {
		s, shows := crashingHost(t, unproven)
		shows(func(u *systemd.Unit, executes *string) { doesNotComeUp(u, executes); u.Exit.Status = 203 })
		n := s.countsOnly()
		must(t, s.beginTick().end(t.Context(), nil))
		if *n != 0 || s.ticks().Unstable != nil {
			t.Errorf("unproven %t: %d transactions; unstable %+v", unproven, *n, s.ticks().Unstable)
		}
	}
}

func TestStatusAdvisesNoRollbackForWhatTheHostDoes(t *testing.T) {
	for name, cause := range hostsCauses {
		for _, noted := range []bool{false, true} {
			s, shows := crashingHost(t, false)
			shows(func(u *systemd.Unit, executes *string) { doesNotComeUp(u, executes); cause.agent(u) })
			by := decision.AgentDown
			if noted {
				m := s.ticks()
				m.Unstable = &state.Unstable{Release: oss("1.1.0"), Count: 2, Since: noon, Last: noon}
				must(t, m.Save(s.Machine.Host.Paths.Ticks()))
				by = decision.AgentUnstable
			}
			_, said := statusSays(t, s.Installer, by)
			if strings.Contains(said, "rollback") || !strings.Contains(said, cause.says) {
				t.Errorf("%s, noted %t: %s says %q; want %q", name, noted, by, said, cause.says)
			}
		}
	}
}
