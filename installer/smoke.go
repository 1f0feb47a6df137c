package installer

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"teleport-update/installer/decision"
	"teleport-update/installer/host"
	"teleport-update/installer/policy"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// SmokeError is a release that was unpacked but does not run here. It counts
// against the version.
type SmokeError struct {
	Release state.Tree
	Err     error
}

func (e *SmokeError) Error() string {
	return fmt.Sprintf("version %s cannot be used on this host: %v", e.Release, e.Err)
}

func (e *SmokeError) Unwrap() error { return e.Err }

// ofHost reports whether a program could not be run for a cause of the host's, which speaks
// against no version: a file system that is mounted noexec or is full, a folder that others can write, or too little
// memory. A program that gives no answer in time counts against its version.
func ofHost(err error) bool {
	if failure.Is[*versions.HostError](err) {
		return true
	}
	for _, cause := range []error{
		unix.EACCES, unix.EPERM, unix.ENOSPC, unix.EDQUOT, unix.EFBIG, unix.EROFS, unix.EIO, unix.ENOMEM, unix.EAGAIN,
	} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// checkLocal checks a version on disk as obtain does, without a network to fetch it again.
func checkLocal(ctx context.Context, tree versions.Tree) error {
	if err := tree.Verify(ctx); err != nil {
		return failure.Unchanged("%w", err).To("`teleport-update pin %s` fetches it again", tree.Release.Version)
	}
	if err := tree.Smoke(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &SmokeError{Release: transaction.TreeOf(tree), Err: err}
	}
	return nil
}

// checkEdition compares the edition that the program of a tree reports with the one that was asked for: neither its name nor the tarball's
// signature proves it. An unsigned release that has run here under its name is not asked: it may be repaired, and rolled back to.
func checkEdition(ctx context.Context, t versions.Tree, ran bool) error {
	file, err := t.Signature()
	if err != nil || file == nil && ran {
		return err
	}
	word, err := versions.ProgramEdition(ctx, t.Binary("teleport"))
	if err != nil {
		return err
	}
	if refusal := policy.CheckEdition(t.Release, word); refusal != nil {
		if file == nil {
			return errors.New(policy.Reason(refusal)) // no policy has a part in it
		}
		return refusal
	}
	return nil
}

// crashed reports whether an agent crashes again and again, by what the last run of the timer saw of it. If it did so already, one more
// restart is enough: this run may have looked between two crashes. If the last run found the host to be the cause, all restarts since then
// may be the host's.
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

// hostKeepsDown returns the cause in the host that keeps the agent of a unit from running; empty if nothing shows. The cause speaks against
// no version: another one would not start, either, or would after its database was given up for nothing.
func (t *tick) hostKeepsDown(ctx context.Context, u systemd.Unit) string {
	if u.NeverBegan() {
		return "systemd began no process of it"
	}
	if u.NotExecuted() && t.canExecute() {
		return "systemd could not execute its program, which can be executed now"
	}
	if limit := u.EndingLimit(); limit != "" {
		return limit
	}
	for _, look := range []func(context.Context) (why, err error){t.host().Starts, t.host().NextStart, t.host().Needs} {
		if why, err := look(ctx); err == nil && why != nil {
			return why.Error()
		}
	}
	return ""
}

// canExecute reports whether the active version is as it was unpacked, and link and unit lead to it: then systemd executes a program that
// this host can execute.
func (t *tick) canExecute() bool {
	v, err := t.host().Version()
	if err != nil || !v.Whole || v.Unusable != nil || v.Changed {
		return false
	}
	problems, err := t.host().Links()
	return err == nil && len(problems) == 0
}

// givenUp reports whether systemd started an agent again and again, and then no more: it came to its limit of starts. An agent that a
// person stopped is idle.
func givenUp(u systemd.Unit) bool {
	return failed(u) && u.Restart != "no" && u.NRestarts > 0
}

// hadNoProcess reports whether the last start of an agent failed before its program ran, for something that is back now. systemd does not
// try again if the unit says so (Restart=no).
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

// startGivenUp starts such an agent once more in each run of the timer: a missing link or file may be back, and nobody else starts the
// agent.
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
