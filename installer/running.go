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
// run may have looked between two crashes. The restarts since a run that found the host to be the cause may
// all be the host's.
func crashed(u systemd.Unit, s state.AgentState, before *state.AgentSeen, already bool) bool {
	if s != state.AgentRunning {
		return s == state.AgentFailing
	}
	fresh, loop := u.NRestarts, uint32(decision.RestartsOfALoop)
	if before != nil && before.Restarts <= u.NRestarts { // else somebody started it since
		fresh -= before.Restarts
		if already {
			loop = 1
		}
	}
	ofHost := before != nil && before.OfHost
	return fresh >= loop && !ofHost
}

// hostKeepsDown says what of the host's keeps the agent of a unit from running; empty if nothing shows. It speaks against no version:
// another one would not start, either, or would after its database was given up for nothing.
func (t *tick) hostKeepsDown(ctx context.Context, u systemd.Unit) string {
	if u.NeverBegan() {
		return "systemd began no process of it"
	}
	if u.NotExecuted() && t.canExecute() {
		return "systemd could not execute its program, which can be executed now"
	}
	if limit := decision.LimitOf(u); limit != "" {
		return limit
	}
	for _, look := range []func(context.Context) (why, err error){t.host().Starts, t.host().NextStart, t.host().Needs} {
		if why, err := look(ctx); err == nil && why != nil {
			return why.Error()
		}
	}
	return ""
}

// canExecute reports whether the active version is as it was unpacked, and link and unit lead to it: what systemd executes is known
// to be a program that this host can execute.
func (t *tick) canExecute() bool {
	v, err := t.host().Version()
	if err != nil || !v.Whole || v.Unusable != nil || v.Changed {
		return false
	}
	problems, err := t.host().Links()
	return err == nil && len(problems) == 0
}

// givenUp reports whether systemd started an agent again and again, and then no more: it
// came to its limit of starts. One that a person stopped is idle.
func givenUp(u systemd.Unit) bool {
	return failed(u) && u.Restart != "no" && u.NRestarts > 0
}

// hadNoProcess reports whether the last start of an agent failed before its program ran, for something that is back now. systemd does not
// try again where the unit says so (Restart=no).
func (t *tick) hadNoProcess(ctx context.Context, u systemd.Unit) bool {
	if !failed(u) || !u.NeverBegan() && !u.NotExecuted() || !t.canExecute() {
		return false
	}
	why, err := t.host().NextStart(ctx)
	return why == nil && err == nil
}

func failed(u systemd.Unit) bool {
	return u.ActiveState == "failed" && !u.Idle() && u.UnitFileState == "enabled"
}

// startGivenUp gives such an agent one more start in each run of the timer: what it failed
// for, a link or a file, may be back, and nobody else starts it.
func (t *tick) startGivenUp(ctx context.Context) {
	c, err := t.host().Config()
	follows := err == nil && c.Spec.Enabled && c.Spec.ActiveVersion != ""
	if !follows || !t.i.Machine.Scheduled || host.Exists(t.i.Machine.Host.Paths.Journal()) {
		return
	}
	if a, err := t.host().Agent(ctx); err != nil || !givenUp(a.Unit) && !t.hadNoProcess(ctx, a.Unit) {
		return
	}
	agent, err := t.i.Machine.Agent(ctx)
	if err != nil {
		return
	}
	defer agent.Close()
	defer t.waited()
	t.i.Machine.Host.Log.Warn("systemd starts the agent no more after starts that failed; it is started once more", "version",
		c.Spec.ActiveVersion)
	if err := agent.Start(ctx); err != nil {
		t.i.Machine.Host.Log.Error("the agent cannot be started: `journalctl -u teleport` says why", "error", err)
	}
}
