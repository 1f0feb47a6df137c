package installer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"teleport-update/installer/policy"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
)

// goesBack says whether a run of the timer leaves the active version for the one before. Of a version
// that was proven, a person has to have asked for that, and it is done once for a version. One that was
// never proven, for no agent ran when the host switched to it, goes back like any other that is not
// healthy, only later: when somebody has started it. It looks at nothing but its arguments.
func (t *tick) goesBack(c state.Config, u *state.Unstable) bool {
	active, last, window := c.Active(), c.Status.LastUpdate, c.Spec.Health.RollbackWindow.Std()
	within := func(since time.Time) bool {
		age := t.i.Machine.Now().Sub(since)
		return c.Status.Unproven || age >= 0 && age <= window // whatever a clock that was set back makes of it
	}
	switch {
	case !t.i.Machine.Scheduled, u == nil, window == 0 && !c.Status.Unproven, !c.Spec.Enabled, c.Spec.Pinned:
		return false
	case u.Release != active, c.Status.PreviousVersion == "", c.Status.Held != nil:
		return false
	case c.PreviousFailed() != nil: // else two versions that crash are left for each other in turn
		return false
	case c.Status.RollbackRefused.Is(c.Previous()): // it was begun, and the policy may have changed
		return within(c.Status.ActiveSince)
	case last == nil, last.Result != state.Succeeded, last.Target != active.Version:
		return false
	case leftOnce(c):
		return false
	}
	return within(last.Time)
}

// leftOnce reports whether the active version was left for the one before already. One that came back
// and was not proven since may be left again.
func leftOnce(c state.Config) bool {
	left := c.Status.Left
	if left == nil || left.Version != c.Spec.ActiveVersion || left.Edition != c.Status.ActiveEdition {
		return false
	}
	return !c.Status.Unproven || !left.Time.Before(c.Status.ActiveSince)
}

// goBack leaves a version that crashes again and again for the one before. The version
// that is left counts as failed; until that is written, it is held back. It returns an error
// where the policy refuses that, once for each reason.
func (t *tick) goBack(ctx context.Context) error {
	c, err := t.host().Config()
	if err != nil || !t.goesBack(c, t.memory.Unstable) {
		return nil
	}
	active := c.Active()
	defer t.waited()
	bad, ok, err := t.i.Machine.Active(c)
	if err == nil && !ok {
		err = fmt.Errorf("version %s is not whole on disk", active.Short())
	}
	var in *intent
	if err == nil {
		in, err = t.i.considerRollback(ctx, RollbackOptions{})
	}
	if byPolicy, _ := policy.Refuses(err); byPolicy {
		return t.backRefused(ctx, err)
	}
	if err == nil {
		// First: whatever becomes of it, it is not tried again.
		err = changeStatus(ctx, t.i.Machine, func(c *state.Config) {
			c.Status.Left = &state.Left{Version: active.Version, Edition: active.Edition, Time: t.i.Machine.Timestamp()}
		})
	}
	if err != nil {
		t.i.Machine.Host.Log.Error("the version that crashes again and again cannot be left for the one before", "version", active.Short(),
			"error", err)
		return nil
	}
	why := "going back from a version that crashes again and again, as --rollback-window says"
	if c.Status.Unproven {
		why = "going back from a version that was never proven, and fails"
	}
	t.i.Machine.Host.Log.Warn(why, "from", active.Short(), "to", in.Request.To.String())
	// A version that crashes is left whether or not it can be made whole.
	err = makeWhole(ctx, t.i, in.wanted, true, "")
	if err == nil {
		err = t.i.transact(ctx, in.Request)
	}
	if err != nil {
		t.i.Machine.Host.Log.Error("going back from a version that crashes again and again failed", "version", active.Short(), "error", err)
		return nil
	}
	reason := fmt.Sprintf("the agent of version %s crashed again and again after its health window", active.Short())
	if c.Status.Unproven {
		reason = fmt.Sprintf("the agent of version %s, which was not running when the host switched to it, failed when it was started",
			active.Short())
	}
	err = changeStatus(ctx, t.i.Machine, func(c *state.Config) {
		c.Status.Held = nil
		c.Status.RecordFailure(transaction.TreeOf(bad), t.i.Machine.Now(), reason)
	})
	if err != nil {
		t.i.Machine.Host.Log.Error("the host is held, because the failure of the version could not be recorded", "version", active.Short(),
			"error", err)
	}
	t.memory.Unstable, t.memory.Agent = nil, nil
	return nil
}

// backRefused has status, history and reports say that the policy refuses the rollback.
func (t *tick) backRefused(ctx context.Context, refusal error) error {
	c, unlock, err := t.i.Machine.Open(ctx)
	if err != nil {
		return errors.Join(refusal, err)
	}
	err = t.i.Machine.ReportRollbackRefused(&c, c.Previous(), refusal)
	unlock()
	if err != nil {
		t.i.heartbeats().report(ctx, c, nil)
	}
	return err
}
