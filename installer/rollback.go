package installer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/policy"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// RollbackOptions are the flags of rollback.
type RollbackOptions struct {
	Version string // empty: the previous version
	// BelowMinimum: also to a version that the policy of the host's owner is against.
	BelowMinimum bool
	Force        bool // even without a database that belongs to it
}

// Rollback goes back to a version that is still on this host, with its own database, without a network. The version that find wants is then
// held back until find wants another, or a person runs update --now.
func (i *Installer) Rollback(ctx context.Context, opts RollbackOptions) error {
	in, err := i.considerRollback(ctx, opts)
	if err != nil {
		return err
	}
	if err := makeWhole(ctx, i, in.wanted, in.Request.Force, "teleport-update rollback "+in.Version+" --force"); err != nil {
		return err
	}
	if err = i.transact(ctx, in.Request); err == nil {
		i.succeeded()
	}
	return err
}

// considerRollback is the part of a rollback under the update lock, before anything is changed.
func (i *Installer) considerRollback(ctx context.Context, opts RollbackOptions) (*intent, error) {
	if err := i.readable(); err != nil {
		return nil, err
	}
	if !host.Exists(i.Machine.Host.Paths.Versions()) { // a refusal makes no folder for a lock
		_, _, err := i.rollbackRequest(state.EmptyConfig(), opts)
		return nil, err
	}
	c, unlock, err := i.Machine.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if p, err := i.ownerRules().policy(c); err == nil { // else allow says so, which root may overrule
		if err := i.ownerRules().rememberPolicy(&c, p); err != nil {
			return nil, err
		}
	}
	req, err := i.foreseeRollback(ctx, c, opts)
	if err != nil {
		// A refused rollback is no attempt.
		if req.To.Version != "" && !failure.Is[*failure.RefusedError](err) && ctx.Err() == nil {
			c.Status.LastUpdate = endedEarly(i.Machine, req.To.Release, err)
			if unsaved := c.Save(i.Machine.Host.Paths.Config()); unsaved != nil {
				i.Machine.Host.Log.Debug("the attempt could not be recorded for the history", "error", unsaved)
			}
		}
		return nil, err
	}
	return &intent{wanted: wanted{Release: req.To.Release, Config: c, Spec: c.Spec}, Request: req}, nil
}

// foreseeRollback is rollbackRequest, and looks for known obstacles: in the host, in the version's files and in its database.
func (i *Installer) foreseeRollback(ctx context.Context, c state.Config, opts RollbackOptions) (transaction.Request, error) {
	req, tree, err := i.rollbackRequest(c, opts)
	if err == nil {
		err = foresee(ctx, i.Machine, c, req)
	}
	if err == nil {
		err = checkLocal(ctx, tree)
	}
	return req, err
}

// rollbackRequest returns the transaction that a rollback asks for, and the version that it goes back to, or why there is no such version.
// Nothing is changed.
func (i *Installer) rollbackRequest(c state.Config, opts RollbackOptions) (req transaction.Request, tree versions.Tree, err error) {
	t, err := rollbackTarget(c, opts.Version)
	if err != nil {
		return req, tree, err
	}
	tree, ok, err := i.Machine.Host.Store.Lookup(t)
	if err != nil {
		return req, tree, err
	}
	if !ok {
		return req, tree, i.notKept(t, c.Active())
	}
	req = transaction.Request{
		Kind: transaction.Rollback, From: c.Active(), To: transaction.TreeOf(tree), Force: opts.Force, Held: i.heldBy(c, t),
		BelowMinimum: opts.BelowMinimum,
	}
	if refusal := i.ownerRules().allow(c, req, tree); refusal != nil {
		return req, tree, refusal
	}
	return req, tree, nil
}

// rollbackTarget returns the version to go back to. After one rollback the previous version is the one that was left, so a second one must
// be named. So must a version that failed: the timer's run may have left it.
func rollbackTarget(c state.Config, named string) (version.Release, error) {
	active := c.Active()
	switch {
	case active.Version == "":
		return version.Release{}, failure.Unchanged("there is no active version to go back from").To("`teleport-update enable` " +
			"installs one").Refused()
	case named == active.Version:
		return version.Release{}, failure.Unchanged("version %s is active already", named).Refused()
	case named == c.Status.PreviousVersion && named != "":
		return c.Previous(), nil
	case named != "":
		return version.Release{Version: named, Edition: active.Edition}, nil
	case c.Status.PreviousVersion == "":
		return version.Release{}, failure.Unchanged("there is no previous version to go back to").
			To("choose one of the versions that `teleport-update verify` lists").Refused()
	case c.Status.Held != nil: // every other commit takes the hold away
		return version.Release{}, failure.Unchanged("the last change was already a rollback, from %s", c.Status.PreviousVersion).
			To("to go further back, name the version: `teleport-update rollback %s`", c.Status.PreviousVersion).Refused()
	case c.PreviousFailed() != nil:
		return version.Release{}, failure.Unchanged("version %s, the previous one, failed on this host: %s", c.Previous().Short(),
			c.PreviousFailed().Error).
			To("to go back to it all the same, name it: `teleport-update rollback %s`", c.Status.PreviousVersion).Refused()
	}
	return c.Previous(), nil
}

// heldBy returns what a rollback holds back: the version that is being left, and find's wish. Until find answers again, its last answer is
// its wish. If there is no answer, or it names the version that the host goes back to, the version that is being left counts as the wish.
func (i *Installer) heldBy(c state.Config, to version.Release) *state.Held {
	spec := c.Spec
	_ = i.Machine.Host.ResolveProxy(&spec) // no proxy: no answer either
	left := c.Active()
	held := &state.Held{Version: left.Version, Edition: left.Edition, Since: i.Machine.Timestamp(), LeftVersion: left.Version,
		LeftEdition: left.Edition}
	if a := i.finder().recall(spec); a != nil && a.Version != "" && (version.Release{Version: a.Version, Edition: a.Edition}) != to {
		held.Version, held.Edition = a.Version, a.Edition
	}
	return held
}

func (i *Installer) notKept(t, active version.Release) error {
	return failure.Unchanged("going back to version %s is refused: %s", t.Short(), i.Machine.WhyNotKept(t)).
		To("`teleport-update verify` lists the versions on this host, `%s` installs this one", pinning(t, active)).Refused()
}

// goesBack reports whether a run of the timer leaves the active version for the previous one. A proven version is left only if a person has
// asked for that, and only once. A version that was never proven, because no agent ran when the host switched to it, is left like any other
// that is not healthy, only later: when somebody has started it. goesBack looks at nothing but its arguments.
func (t *tick) goesBack(c state.Config, u *state.Unstable) bool {
	active, last, window := c.Active(), c.Status.LastUpdate, c.Spec.Health.RollbackWindow.Std()
	within := func(since time.Time) bool {
		age := t.i.Machine.Now().Sub(since)
		return c.Status.Unproven || age >= 0 && age <= window // also if the clock was set back
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

// leftOnce reports whether the host has left the active version for the previous one before. A version that came back and was not proven
// since may be left again.
func leftOnce(c state.Config) bool {
	left := c.Status.Left
	if left == nil || left.Version != c.Spec.ActiveVersion || left.Edition != c.Status.ActiveEdition {
		return false
	}
	return !c.Status.Unproven || !left.Time.Before(c.Status.ActiveSince)
}

// goBack leaves a version that crashes again and again for the previous one. The version that it leaves counts as failed; until that is
// written, it is held back. goBack returns an error if the policy refuses the rollback, once for each reason.
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
		// First: the rollback is not tried again, however it ends.
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

// backRefused records for status, history and reports that the policy refuses the rollback.
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
