package transaction

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/layout"
)

// undoing is a transaction on its way back.
type undoing struct {
	t    *transaction
	boot bool  // files only: the agent has not been started yet
	err  error // all that failed
	// kept: the database could not go back, so the new version stays whole.
	kept bool
	// later: whether all is back is for the next run to see.
	later bool
	// untouched: the process of before served on when this began, and was left alone.
	untouched bool
}

// undo undoes the steps, from the journal alone, and closes the transaction. It can be
// cut off anywhere and begun again.
func (t *transaction) undo(ctx context.Context) error {
	if err := t.noteIfBooted(ctx); err != nil {
		return err
	}
	if sight, err := t.agent.Look(ctx); err == nil {
		if t.runsMasked(sight) {
			return errMasked
		}
		if why := sight.hidden(); why != nil {
			return t.leftOpen(why) // it would be restarted in each run, and taken for dead
		}
	}
	err := t.undoSteps(ctx, false)
	t.startDependents(ctx)
	if err != nil {
		return err
	}
	return t.closeUndone(ctx)
}

// undoSteps is the one door back, on a host that is up and at boot. Whatever fails, each
// step is tried, and the agent comes last.
func (t *transaction) undoSteps(ctx context.Context, boot bool) error {
	u := &undoing{t: t, boot: boot}
	if u.t.j.Phase != restored {
		u.err = u.enterRollingBack()
	}
	for _, s := range slices.Backward(steps()) {
		if !u.due(s) {
			continue
		}
		err := s.undo(u, ctx)
		if u.boot && errors.Is(err, errTooSoon) {
			u.t.m.Host.Log.Warn("the next run checks whether the database is the old version's", "error", err)
			u.later, err = true, nil
		}
		u.err = errors.Join(u.err, err)
		if s.leaves != "" && u.err == nil && !u.later {
			u.err = u.t.j.enter(s.leaves)
		}
	}
	return u.err
}

// runsMasked reports whether the new version runs, and its unit is masked: once stopped,
// nobody could start an agent again.
func (t *transaction) runsMasked(s Sight) bool {
	return s.LoadState == "masked" && s.Running() && s.runsFrom(t.j.To.ProgramsDir())
}

// stopsMasked reports whether an undoing that is about to stop the agent would leave none:
// it runs the new version, or yet the old one, on a database with which it can go on, and
// its unit is masked.
func (u *undoing) stopsMasked(ctx context.Context) bool {
	s, err := u.t.agent.Look(ctx)
	return err == nil && s.LoadState == "masked" && s.Running() &&
		(s.runsFrom(u.t.j.To.ProgramsDir()) || !u.t.j.Database.Taken || u.needNotGoBack(ctx))
}

var errMasked = fmt.Errorf("%[1]s is masked, so that an agent that is stopped stays down, and nothing was stopped: "+
	"`systemctl unmask %[1]s` first", layout.AgentUnit)

// due reports whether a step is to be undone: each where nothing was restored yet
// and the journal can say that something is; at the end, and in every way out, the
// agent.
func (u *undoing) due(s step) bool {
	if s.undo == nil || u.boot && s.live {
		return false
	}
	return u.t.j.Phase == rollingBack || s.name == steps()[0].name
}

// enterRollingBack does without the write where the disk has no room for it, or
// is broken, as long as the journal there says begun. That means the same, and
// links and unit may still have room to go back.
func (u *undoing) enterRollingBack() error {
	err := u.t.j.enter(rollingBack)
	if err == nil {
		return nil
	}
	if there, readErr := load(u.t.j.path); readErr != nil || there == nil || there.Phase != begun {
		return err
	}
	u.t.m.Host.Log.Warn("putting links and unit back all the same", "error", err)
	u.t.j.assume(rollingBack)
	return nil
}

// stopNew stops the version that failed, for what is to be put back. One that the
// agent was never told of runs only where somebody else restarted it by the new
// links, and an old process that never stopped serving is left in peace where it
// can be.
func (u *undoing) stopNew(ctx context.Context) error {
	switch {
	case !u.t.j.reached("reload"):
		sight, err := u.t.agent.Look(ctx)
		if err != nil || !sight.runsFrom(u.t.j.To.ProgramsDir()) {
			return err
		}
	case u.t.j.Watch.OldServes && !u.t.j.Database.Taken:
		return nil
	case u.t.j.Watch.OldServes:
		if same, err := u.sameUnderOld(ctx); err != nil || same {
			return err
		}
	}
	if err := u.lookFirst(ctx); err != nil {
		return err
	}
	if u.untouched = u.oldIsUntouched(ctx); u.untouched {
		return nil
	}
	if u.stopsMasked(ctx) { // somebody may have masked it since the undoing began
		u.kept = true
		return errMasked
	}
	return u.stopAgent(ctx)
}

// stopAgent stops the agent for what is to be put back; at boot none was started yet. An
// undoing that was begun before may have brought the old version back already, which goes
// on then.
func (u *undoing) stopAgent(ctx context.Context) error {
	if u.boot {
		return nil
	}
	sight, err := u.t.agent.Look(ctx)
	if back := u.t.j.Database.Restored || !u.t.j.Database.Taken && host.AgentLinkIsBack(u.t.j.Links); err == nil && back {
		if !sight.runsFrom(u.t.j.To.ProgramsDir()) {
			return nil
		}
		if u.t.j.Database.Restored {
			err = u.t.j.setRestored(false) // somebody has started it since
		}
	}
	if err == nil {
		err = u.t.noteIfStarted(sight)
	}
	if err == nil {
		err = u.t.agent.Stop(ctx, atOnce)
	}
	if err != nil {
		u.kept = true // for the database cannot go back under it
		return fmt.Errorf("stop the agent: %w", err)
	}
	return nil
}

// restoreUnit puts the unit back, and has systemd read it.
func (u *undoing) restoreUnit(ctx context.Context) error {
	if u.kept {
		return nil
	}
	err := u.t.setAsideForUnit()
	if err == nil {
		err = host.RestoreUnit(u.t.j.Unit)
	}
	u.restoreReport()
	return errors.Join(wrap(err, "put the agent's unit back: %w"), u.t.tellSystemd(ctx))
}

// restoreReport has the agent report to its cluster what it did before: nothing, if the
// configuration said so, or if what has it report came with this transaction. What the agent does
// not report is no reason to leave the old version waiting.
func (u *undoing) restoreReport() {
	c, err := u.t.found()
	switch {
	case err != nil:
	case c.Spec.NoClusterReport, u.t.j.ClusterReport.Fresh:
		_, err = u.t.m.Host.ReportToCluster(false)
	case c.Spec.ActiveVersion != "":
		if _, err = u.t.m.Host.ReportToCluster(true); err == nil {
			err = u.t.m.Host.WriteClusterConfig(c, c.Spec.Pinned || c.Status.Held != nil)
		}
	}
	u.t.m.warn(err, "the agent may not report its updates to its cluster as it did before")
}

// tellSystemd makes systemd read the unit. At a boot at which it cannot be reached,
// the first tick does.
func (t *transaction) tellSystemd(ctx context.Context) error {
	later, err := t.reloadOrLeave(ctx)
	if later {
		return t.j.noteReloadOwed(true)
	}
	return wrap(err, "make systemd read the old unit: %w")
}

// reloadOrLeave makes systemd read its files, or leaves that for later where it cannot be
// reached.
func (t *transaction) reloadOrLeave(ctx context.Context) (later bool, err error) {
	err = t.agent.DaemonReload(ctx)
	if _, gone := t.agent.(unreachable); gone {
		t.m.Host.Log.Warn("systemd cannot be reached; the next run makes it read the unit", "error", err)
		return true, nil
	}
	return false, err
}

// settleReload makes systemd read what it could not be told of at boot.
func (t *transaction) settleReload(ctx context.Context) error {
	if !t.j.Agent.ReloadOwed {
		return nil
	}
	if err := t.agent.DaemonReload(ctx); err != nil {
		return fmt.Errorf("make systemd read the unit: %w", err)
	}
	return t.j.noteReloadOwed(false)
}

// revertLinks puts the links back. Where the agent's own cannot go back, the whole
// of the new version stays.
func (u *undoing) revertLinks(ctx context.Context) error {
	if u.kept {
		return nil
	}
	err := u.putLinksBack()
	if err != nil && !host.AgentLinkIsBack(u.t.j.Links) {
		return errors.Join(err, u.keepNew(ctx))
	}
	return err
}

func (u *undoing) putLinksBack() error {
	begun := host.Begun(u.t.j.Links, u.t.m.Host.Paths.Original())
	wasThere := func(c state.LinkChange) bool { return c.Before != state.Before{} }
	err := u.t.setAsideForLinks(begun, wasThere)
	// What stands under a name that nothing had before is not in the way.
	foreign := host.Foreign(begun)
	begun = slices.DeleteFunc(begun, func(c state.LinkChange) bool { return !wasThere(c) && slices.Contains(foreign, c.Path) })
	return wrap(errors.Join(err, host.RevertLinks(begun, u.t.m.Host.Paths.Original())), "put the links back: %w")
}

// seeFilesBack puts links and unit back once more, where others changed them since: the
// database is the old version's by now, and what runs on it must be.
func (u *undoing) seeFilesBack(ctx context.Context) error {
	now, err := host.ReadUnit(u.t.j.Unit.Path)
	if err == nil && host.SameUnit(now, u.t.j.Unit) && host.AgentLinkIsBack(u.t.j.Links) {
		return nil
	}
	return errors.Join(u.putLinksBack(), u.restoreUnit(ctx))
}

// keepNew is placeNew by an undoing, which moves nothing else from then on.
func (u *undoing) keepNew(ctx context.Context) error {
	u.kept = true
	return u.t.placeNew(ctx)
}

// placeNew is where the pair of program and database cannot go back: the new version
// gets its unit and its links again, and runs on its own database until the next
// run. A host never runs a version on a database of another.
func (t *transaction) placeNew(ctx context.Context) error {
	tree, ok, err := t.m.Host.Store.Lookup(t.j.To.Release)
	if err == nil && !ok {
		err = errors.New("it is no longer on disk")
	}
	if err == nil {
		err = errors.Join(t.setAsideForLinks(t.j.Links, func(c state.LinkChange) bool { return c.Target != "" || c.PutBack != "" }),
			t.setAsideForUnit(),
			t.m.Host.Place(tree, t.j.Links))
	}
	if err != nil {
		return fmt.Errorf("keep version %s: %w", t.j.To, err)
	}
	return t.tellSystemd(ctx)
}
