package transaction

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"teleport-update/health"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
)

// undoing is a transaction on its way back.
type undoing struct {
	*transaction
	boot bool // files only: the agent has not been started yet
	errs []error
	// kept: the database could not go back, so the new version stays whole.
	kept bool
	// later: whether all is back is for the next run to see.
	later bool
}

// undo is the one door back: it undoes the steps, from the journal alone, and
// closes the transaction. It can be cut off anywhere and begun again. Whatever
// fails, each part is tried, and the agent comes last.
func (t *transaction) undo(ctx context.Context) error {
	if err := t.noteIfBooted(ctx); err != nil {
		return err
	}
	u := &undoing{transaction: t}
	if err := u.run(ctx); err != nil {
		return err
	}
	return t.closeUndone(ctx)
}

// run undoes the steps from the last to the first.
func (u *undoing) run(ctx context.Context) error {
	if u.j.Phase != restored {
		u.fail(u.enterRollingBack())
	}
	for _, s := range slices.Backward(steps()) {
		if !u.due(s) {
			continue
		}
		err := s.undo(u, ctx)
		if u.boot && errors.Is(err, errTooSoon) {
			u.Log.Warn("whether the database is the old version's is for the next run to see", "error", err)
			u.later, err = true, nil
		}
		u.fail(err)
		if s.leaves != "" && len(u.errs) == 0 && !u.later {
			u.fail(u.j.enter(s.leaves))
		}
	}
	return errors.Join(u.errs...)
}

// due reports whether a step is to be undone: each where nothing was restored yet
// and the journal can say that something is; at the end, and in every way out, the
// agent.
func (u *undoing) due(s step) bool {
	agent := s.name == steps()[0].name
	switch {
	case s.undo == nil, u.boot && s.live:
		return false
	case u.j.Phase != rollingBack:
		return agent
	}
	return true
}

func (u *undoing) fail(err error) {
	if err != nil {
		u.errs = append(u.errs, err)
	}
}

// enterRollingBack does without the write where the disk has no room for it, or
// is broken, as long as the journal there says begun. That means the same, and
// links and unit may still have room to go back.
func (u *undoing) enterRollingBack() error {
	err := u.j.enter(rollingBack)
	if err == nil {
		return nil
	}
	if there, readErr := load(u.j.path); readErr != nil || there == nil || there.Phase != begun {
		return err
	}
	u.Log.Warn("putting links and unit back all the same", "error", err)
	u.j.assume(rollingBack)
	return nil
}

// stopNew stops the version that failed, for what is to be put back. One that the
// agent was never told of runs only where somebody else restarted it by the new
// links, and an old process that never stopped serving is left in peace where it
// can be.
func (u *undoing) stopNew(ctx context.Context) error {
	switch {
	case !u.j.reached("reload"):
		sight, err := u.agent.Look(ctx)
		if err != nil || !sight.runsFrom(u.j.To.Dir) {
			return err
		}
	case u.j.Watch.OldServes && !u.j.Database.Taken:
		return nil
	case u.j.Watch.OldServes:
		if same, err := u.sameUnderOld(ctx); err != nil || same {
			return err
		}
	}
	if err := u.lookFirst(ctx); err != nil {
		return err
	}
	return u.stopAgent(ctx)
}

// stopAgent stops the agent for what is to be put back. An undoing that was begun
// before may have brought the old version back already, which goes on then.
func (u *undoing) stopAgent(ctx context.Context) error {
	sight, err := u.agent.Look(ctx)
	if back := u.j.Database.Restored || !u.j.Database.Taken && host.AgentLinkIsBack(u.j.Links); err == nil && back {
		if !sight.runsFrom(u.j.To.Dir) {
			return nil
		}
		if u.j.Database.Restored {
			err = u.j.setRestored(false) // somebody has started it since
		}
	}
	if err == nil {
		err = u.noteIfStarted(sight)
	}
	if err == nil {
		err = u.agent.Stop(ctx, atOnce)
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
	err := u.setAsideForUnit()
	if err == nil {
		err = host.RestoreUnit(u.j.Unit)
	}
	if err != nil {
		err = fmt.Errorf("put the agent's unit back: %w", err)
	}
	return errors.Join(err, u.tellSystemd(ctx))
}

// tellSystemd makes systemd read the unit. At a boot at which it cannot be reached,
// the first tick does.
func (t *transaction) tellSystemd(ctx context.Context) error {
	err := t.agent.DaemonReload(ctx)
	if err == nil {
		return nil
	}
	if _, gone := t.agent.(unreachable); gone {
		t.Log.Warn("systemd cannot be reached; the next run makes it read the unit", "error", err)
		return t.j.noteReloadOwed(true)
	}
	return fmt.Errorf("make systemd read the old unit: %w", err)
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
	begun := host.Begun(u.j.Links, u.Paths.Original())
	wasThere := func(c state.LinkChange) bool { return c.Before != state.Before{} }
	err := u.setAsideForLinks(begun, wasThere)
	// What stands under a name that nothing had before is not in the way.
	foreign := host.Foreign(begun)
	begun = slices.DeleteFunc(begun, func(c state.LinkChange) bool { return !wasThere(c) && slices.Contains(foreign, c.Path) })
	err = errors.Join(err, host.RevertLinks(begun, u.Paths.Original()))
	if err == nil {
		return nil
	}
	err = fmt.Errorf("put the links back: %w", err)
	if !host.AgentLinkIsBack(u.j.Links) {
		return errors.Join(err, u.keepNew(ctx))
	}
	return err
}

// keepNew is where the pair of program and database cannot go back: the new version
// gets its unit and its links again, and runs on its own database until the next
// run. A host never runs a version on a database of another.
func (u *undoing) keepNew(ctx context.Context) error {
	u.kept = true
	tree, ok, err := u.Store.Lookup(u.j.To.Release)
	if err == nil && !ok {
		err = errors.New("it is no longer on disk")
	}
	if err == nil {
		err = errors.Join(u.setAsideForLinks(u.j.Links, func(c state.LinkChange) bool { return c.Target != "" || c.PutBack != "" }), u.setAsideForUnit(),
			u.Place(tree, u.j.Links))
	}
	if err != nil {
		return fmt.Errorf("keep version %s: %w", u.j.To, err)
	}
	return u.tellSystemd(ctx)
}

// bringBack sees the old version run, where it ran before, and watches it hold.
// After an undoing that failed, and that the next run begins again, it only sees
// that some agent runs: some agent beats none, as it does at boot.
func (u *undoing) bringBack(ctx context.Context) error {
	if len(u.errs) > 0 {
		// First: what an agent writes from now on is not to be lost to another restore.
		err := u.j.save(&u.j.Journal)
		if u.j.Agent.State.Wanted() {
			err = errors.Join(err, u.agent.Start(ctx))
		}
		return err
	}
	if err := u.settleReload(ctx); err != nil {
		return err
	}
	if u.j.Watch.Over {
		return nil
	}
	err := u.watchOld(ctx)
	unhealthy, ok := errors.AsType[*health.UnhealthyError](err)
	if !ok {
		return err
	}
	// It is tried once more, by the next run: then the journal is closed all the
	// same. All is back in its place, and as long as the journal is open no other
	// version can come and help.
	if u.j.Watch.OldFails == "" {
		return errors.Join(err, u.j.noteOldFails(unhealthy.Error()))
	}
	u.Log.Error("the version before is not healthy either; all of it is back in its place, and another version may help", "error", err)
	return u.j.setVerdict(u.j.Verdict.Against, u.j.Verdict.Reason+"; and the version before is not healthy either: "+unhealthy.Error())
}

func (u *undoing) watchOld(ctx context.Context) error {
	if u.j.Watch.OldServes {
		return nil
	}
	sight, err := u.agent.Look(ctx)
	if err != nil {
		return err
	}
	if sight.mainFrom(u.j.To.Dir) {
		// Started between a stop of ours and the links.
		if err := u.noteIfStarted(sight); err != nil {
			return err
		}
	}
	if !u.j.Agent.State.Wanted() || sight.State == state.AgentUnknown {
		return nil
	}
	if !u.j.reached("reload") && sight.MainPID != 0 && sight.MainPID == u.j.Agent.MainPID && sight.InvocationID == u.j.Agent.InvocationID {
		return nil // nobody ever told it anything
	}
	dir := ""
	if u.j.From != nil {
		dir = u.j.From.Dir
	}
	// The old version is not asked for its ready_url: it serves as it served. Where
	// nobody knows how long it is to be watched, the usual time is enough.
	spec, _ := u.healthSpec()
	w := watchOf(dir, state.HealthSpec{Window: spec.Window}, sight)
	by := health.Restart
	if sight.State == state.AgentRunning && sight.MainPID != 0 && !sight.mainFrom(u.j.To.Dir) {
		by = health.Running // systemd started it at boot
	}
	_, err = u.agent.Prove(ctx, by, w)
	if unhealthy, ok := errors.AsType[*health.UnhealthyError](err); ok && unhealthy.Stopped {
		u.Log.Info("the agent stays down: somebody stopped it while the old version was being watched")
		return u.j.setAgent(state.AgentStopped)
	}
	if err != nil && u.j.Agent.State == state.AgentFailing {
		u.Log.Warn("the agent fails as it did before the transaction", "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("the old version was put back but is not healthy: %w", err)
	}
	return nil
}

// healthSpec is how the versions of this transaction are watched. A person may shorten a
// window while it is open; where the file does not tell, the record does.
func (t *transaction) healthSpec() (state.HealthSpec, error) {
	if t.j.Commit.Spec != nil {
		return t.j.Commit.Spec.Health, nil
	}
	c, _, err := t.Paths.LoadConfigOr(t.j.Config)
	if err != nil {
		c, err = t.found()
	}
	return c.Spec.Health, err
}

// noteIfBooted finds out, before anything is stopped here, whether an agent ran that
// is down since a reboot: what a person had started by hand does not come back
// at boot, and is not for us to start.
func (t *transaction) noteIfBooted(ctx context.Context) error {
	sight, err := t.agent.Look(ctx)
	if err != nil || sight.State == state.AgentUnknown || t.j.BootID == t.BootID() {
		return err
	}
	down := t.j.Agent.State.Wanted() && sight.State == state.AgentStopped
	if down {
		t.Log.Info("the agent stays down: systemd did not start it at this boot")
	}
	return t.j.noteBoot(t.BootID(), down)
}

// noteIfStarted notes that an agent which was stopped, when the transaction began or by a
// person in the middle of the watch, has been started since: by then that is what
// is wanted, and no stop of ours may be the last word. A job alone says nothing,
// it may be one that stops the agent.
func (t *transaction) noteIfStarted(s Sight) error {
	if t.j.Agent.State != state.AgentStopped || !s.Running() && s.ActiveState != "activating" {
		return nil
	}
	t.Log.Info("the agent was started meanwhile: it will run again once the old version is back")
	return t.j.noteStarted()
}

// reason is why the transaction is undone.
func (t *transaction) reason() string {
	return NameOr(t.j.Verdict.Reason, "the transaction was interrupted")
}

// closeUndone records how the transaction ended and removes the journal.
func (t *transaction) closeUndone(ctx context.Context) error {
	c, lost, err := t.config()
	if err != nil {
		return errors.Join(err, t.j.noteOver())
	}
	if last := c.Status.LastUpdate; last == nil || t.j.ID == "" || last.Transaction != t.j.ID {
		t.recordUndone(&c.Status)
		tellLost(&c.Status, lost)
		t.tellAside(&c.Status)
	}
	if t.j.OwnUnits.Fresh {
		if err := t.RemoveUnits(ctx, t.agent); err != nil {
			return err
		}
	}
	if t.NeverEnabled(c) {
		t.ForgetFirst(t.j.To.Release)
	} else {
		t.DropUndone(t.j.Links)
	}
	if err := c.Save(t.Paths.Config()); err != nil {
		return err
	}
	if err := t.close(); err != nil {
		return err
	}
	t.Retain(c)
	return nil
}

// recordUndone counts a failure or an interruption, once: whoever is cut off before
// the journal is gone finds the transaction named.
func (t *transaction) recordUndone(s *state.Status) {
	against, result := t.j.Verdict.Against, state.RolledBack
	switch {
	case against == state.AgainstInterruption:
		result = state.Interrupt
		if s.RecordInterruption(t.j.To.Release) {
			against = state.AgainstVersion
		}
	case !t.j.reached("backup"):
		result = state.FailedEarly
	}
	s.LastUpdate = &state.LastUpdate{
		Time: t.Timestamp(), Target: t.j.To.Version, TargetEdition: t.j.To.Edition,
		Result: result, Error: t.reason(), SkippedBackup: t.j.Commit.SkippedBackup, Transaction: t.j.ID, Took: t.durations(),
	}
	if against == state.AgainstVersion {
		s.RecordFailure(t.j.To, t.Now(), t.reason())
	}
}
