package installer

import (
	"context"

	"teleport-update/installer/host"
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

// Rollback goes back to a version that is still on this host, with the database
// it had, without a network. What find wants then is held back until it wants
// something else, or a person says update --now.
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
		// What was refused was no attempt.
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

// foreseeRollback is rollbackRequest, and asks what is known to be in the way: of the host, of the version's files and of its
// database.
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

// rollbackRequest is the transaction that a rollback asks for, and the version that it goes back to, or
// why there is none. Nothing is changed.
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

// rollbackTarget is the version to go back to. After one rollback the previous
// version is the one that was left, so a second one must be named. So must one that failed: the timer's run
// may have left it.
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

// heldBy is what a rollback holds back: the version that is being left, and find's wish. Until find
// answers again that is its last answer, or the version that is being left when find has not been
// heard, or wants the very version that is gone back to.
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
