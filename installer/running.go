package installer

import (
	"context"

	"teleport-update/installer/decision"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/systemd"
)

// crashed judges an agent by what the last run of the timer saw of it: whether it
// crashes again and again. Of one that did so already one more restart is enough: this
// run may have looked between two crashes.
func crashed(u systemd.Unit, s state.AgentState, before *state.AgentSeen, already bool) bool {
	fresh, loop := u.NRestarts, uint32(decision.RestartsOfALoop)
	if before != nil && before.Restarts <= u.NRestarts { // else somebody started it since
		fresh -= before.Restarts
		if already {
			loop = 1
		}
	}
	return s == state.AgentFailing || s == state.AgentRunning && fresh >= loop
}

// givenUp reports whether systemd started an agent again and again, and then no more: it
// came to its limit of starts. One that a person stopped is idle.
func givenUp(u systemd.Unit) bool {
	failed := u.ActiveState == "failed" && !u.Idle()
	restarts := u.Restart != "no" && u.NRestarts > 0
	return failed && restarts && u.UnitFileState == "enabled"
}

// startGivenUp gives such an agent one more start in each run of the timer: what it failed
// for, a link or a file, may be back, and nobody else starts it.
func (t *tick) startGivenUp(ctx context.Context) {
	c, err := t.host().Config()
	follows := err == nil && c.Spec.Enabled && c.Spec.ActiveVersion != ""
	if !follows || !t.i.Machine.Scheduled || host.Exists(t.i.Machine.Host.Paths.Journal()) {
		return
	}
	if a, err := t.host().Agent(ctx); err != nil || !givenUp(a.Unit) {
		return
	}
	agent, err := t.i.Machine.Agent(ctx)
	if err != nil {
		return
	}
	defer agent.Close()
	defer t.waited()
	t.i.Machine.Host.Log.Warn("systemd has given the agent up after so many failed starts; it is started once more", "version",
		c.Spec.ActiveVersion)
	if err := agent.Start(ctx); err != nil {
		t.i.Machine.Host.Log.Error("the agent cannot be started: `journalctl -u teleport` says why", "error", err)
	}
}
