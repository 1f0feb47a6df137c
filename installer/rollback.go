package installer

import (
	"context"
)

// RollbackOptions are the flags of rollback.
type RollbackOptions struct {
	Version string // empty: the previous version
	Force   bool   // even without a database that belongs to it
}

// Rollback goes back to a version that is still on this host, with the database
// it had, without a network. What find wants then is held back until it wants
// something else, or a person says update --now.
func (i *Installer) Rollback(ctx context.Context, opts RollbackOptions) error {
	in, err := i.considerRollback(ctx, opts)
	if err != nil {
		return err
	}
	tree, err := i.obtainLocal(ctx, in.Target)
	if err != nil {
		return err
	}
	return i.switchOver(ctx, SwitchRequest{
		Kind: switchRollback, From: in.Config.activeTarget(), To: releaseOf(tree), Force: opts.Force,
		Held: i.heldBy(in.Config),
	})
}

func (i *Installer) considerRollback(ctx context.Context, opts RollbackOptions) (*intent, error) {
	unlock, err := i.lockUpdates(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := i.recoverLocked(ctx); err != nil {
		return nil, err
	}
	c, err := loadConfig(i.Paths.Config())
	if err != nil {
		return nil, err
	}
	t, err := rollbackTarget(c, opts.Version)
	if err != nil {
		return nil, err
	}
	if !opts.Force {
		if err := i.allowRollback(ctx, c, t); err != nil {
			return nil, err
		}
	}
	return &intent{Config: c, Spec: c.Spec, Target: t, Kind: switchRollback}, nil
}

// allowRollback asks for a valid database only where one is needed: going
// forward, the live one will do.
func (i *Installer) allowRollback(ctx context.Context, c Config, t target) error {
	if !isDowngrade(c.Spec.ActiveVersion, t.Version) {
		return nil
	}
	return i.allowDowngrade(ctx, c, c.Spec, t)
}

// rollbackTarget is the version to go back to. After one rollback the previous
// version is the one that was left, so a second one must be named.
func rollbackTarget(c Config, named string) (target, error) {
	active := c.activeTarget()
	switch {
	case active.Version == "":
		return target{}, refuse("there is no active version to go back from; nothing was changed")
	case named == active.Version:
		return target{}, refuse("version %s is active already; nothing was changed", named)
	case named == c.Status.PreviousVersion && named != "":
		return target{Version: named, Edition: c.Status.PreviousEdition}, nil
	case named != "":
		return target{Version: named, Edition: active.Edition}, nil
	case c.Status.PreviousVersion == "":
		return target{}, refuse("there is no previous version to go back to; nothing was changed: name one that `teleport-update verify` lists")
	case c.Status.Held != nil && c.Status.Held.Version == c.Status.PreviousVersion:
		return target{}, refuse("the last change was a rollback from %s already; nothing was changed: to go on, name the version, as in `teleport-update rollback %s`",
			c.Status.PreviousVersion, c.Status.PreviousVersion)
	}
	return target{Version: c.Status.PreviousVersion, Edition: c.Status.PreviousEdition}, nil
}

// heldBy is the wish of find that a rollback holds back: its last answer, or
// the version that is being left when find has not been heard.
func (i *Installer) heldBy(c Config) *Held {
	spec := c.Spec
	_ = i.resolveProxy(&spec) // no proxy: no answer either
	held := &Held{Version: c.Spec.ActiveVersion, Edition: c.Status.ActiveEdition, Since: i.timestamp()}
	if a := i.recall(spec); a != nil {
		held.Version, held.Edition = a.Version, a.Edition
	}
	return held
}

func errNotKept(t target) error {
	return refuse("version %s is not on this host any more; nothing was changed: `teleport-update verify` lists what is, `teleport-update pin %s` installs it",
		describe(t.Version, t.Edition), t.Version)
}
