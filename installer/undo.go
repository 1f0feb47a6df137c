package installer

import (
	"context"
	"errors"
	"fmt"

	"teleport-update/backup"
	"teleport-update/health"
	"teleport-update/internal/durable"
	"teleport-update/internal/procfs"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// undo puts the old version back, from the journal alone, and closes the
// transaction. It can be cut off anywhere and begun again: every step either is
// repeatable or leaves its mark in the journal first.
func (i *Installer) undo(ctx context.Context, j *journal, conn *systemd.Conn) error {
	if err := i.heedBoot(ctx, j, conn); err != nil {
		return err
	}
	if j.Phase != restored {
		if err := i.undoFiles(ctx, j, conn, true); err != nil {
			i.startAnyway(ctx, j, conn)
			return err
		}
	}
	if err := i.bringBack(ctx, j, conn); err != nil {
		if err := i.oldFails(j, err); err != nil {
			return err
		}
	}
	return i.closeUndone(ctx, j, conn)
}

// startAnyway follows an undoing that failed, and that the next run begins again:
// until then some agent beats none, as it does at boot.
func (i *Installer) startAnyway(ctx context.Context, j *journal, conn *systemd.Conn) {
	if conn == nil || !j.Agent.State.manageable() {
		return
	}
	if err := conn.Start(ctx, AgentUnit); err != nil {
		i.Log.Warn("the agent could not be started", "error", err)
	}
}

// heed notes what a watch found out besides that the version does not hold.
func (j *journal) heed(u *health.UnhealthyError) {
	j.OldServes = u.OldServes
	if u.Stopped {
		// A person stopped the agent in the middle of the watch: nothing is known
		// about the version, and starting it again is that person's.
		j.Interrupted, j.Blame, j.Agent.State = true, false, agentStopped
	}
}

// heedBoot finds out, before anything is stopped here, whether an agent ran that
// is down since a reboot: what a person had started by hand does not come back
// at boot, and is not for us to start.
func (i *Installer) heedBoot(ctx context.Context, j *journal, conn *systemd.Conn) error {
	if conn == nil || j.BootID == procfs.BootID() {
		return nil
	}
	u, err := conn.Unit(ctx, AgentUnit)
	if err != nil {
		return err
	}
	if j.Agent.State.manageable() && stateOf(u) == agentStopped {
		i.Log.Info("the agent stays down: systemd did not start it at this boot")
		j.Agent.State = agentStopped
	}
	j.BootID, j.OldServes = procfs.BootID(), false
	if j.Phase != restored {
		j.Phase = rollingBack
	}
	return j.save(i.Paths.Journal())
}

// heedStart notes that an agent which was stopped, when the switch began or by a
// person in the middle of the watch, has been started since: by then that is what
// is wanted, and no stop of ours may be the last word. A job alone says nothing,
// it may be one that stops the agent.
func (i *Installer) heedStart(j *journal, u systemd.Unit) error {
	if j.Agent.State != agentStopped || !u.Running() && u.ActiveState != "activating" {
		return nil
	}
	i.Log.Info("the agent was started meanwhile: it will run again once the old version is back")
	j.Agent.State = agentRunning
	return j.save(i.Paths.Journal())
}

// stopToUndo stops the agent for what is to be put back.
func (i *Installer) stopToUndo(ctx context.Context, j *journal, conn *systemd.Conn) error {
	u, err := conn.Unit(ctx, AgentUnit)
	if err != nil {
		return err
	}
	if err := i.heedStart(j, u); err != nil {
		return err
	}
	if err := conn.Stop(ctx, AgentUnit); err != nil {
		return fmt.Errorf("stop the agent: %w", err)
	}
	return nil
}

// oldFails decides what follows when the old version does not hold either. It is
// tried again, by the next run, once: then the journal is closed all the same.
// All is back in its place, and as long as the journal is open no other version
// can come and help.
func (i *Installer) oldFails(j *journal, err error) error {
	var unhealthy *health.UnhealthyError
	if !errors.As(err, &unhealthy) {
		return err
	}
	if j.OldFails == "" {
		j.OldFails = unhealthy.Error()
		return errors.Join(err, j.save(i.Paths.Journal()))
	}
	i.Log.Error("the version before does not hold either; all of it is back in its place, and another version may help", "error", err)
	j.Error += "; and the version before does not hold either: " + unhealthy.Error()
	return nil
}

// undoFiles puts links, unit and database back. mayStop says that the agent may
// be stopped for its database; at boot it has not been started yet.
func (i *Installer) undoFiles(ctx context.Context, j *journal, conn *systemd.Conn, mayStop bool) error {
	if err := i.enterRollingBack(j); err != nil {
		return err
	}
	if conn != nil && mayStop && j.Switched && !j.OldServes {
		// Before systemd reads its files anew: doing so makes it forget that a
		// main process it learned of from the PID file is no child of its own.
		// If that one is dead, systemd waits for it in vain, four times the
		// unit's stop timeout, and there is no agent meanwhile.
		if err := i.stopToUndo(ctx, j, conn); err != nil {
			return err
		}
	}
	if err := versions.RevertLinks(versions.Begun(j.Links, i.Paths.Original()), i.Paths.Original()); err != nil {
		return fmt.Errorf("put the links back: %w", err)
	}
	if err := j.Unit.restore(); err != nil {
		return fmt.Errorf("put the agent's unit back: %w", err)
	}
	if conn != nil {
		if err := conn.DaemonReload(ctx); err != nil {
			return fmt.Errorf("make systemd read the old unit: %w", err)
		}
	}
	err := i.undoDatabase(ctx, j, conn, mayStop)
	if errors.Is(err, errTooSoon) {
		i.Log.Warn("whether the database is the old version's is for the next run to see", "reason", err)
		return nil
	}
	if err != nil {
		return err
	}
	return j.enter(i.Paths.Journal(), restored)
}

// enterRollingBack does without the write where the disk has no room for it, or
// is broken, as long as the journal there says begun. That means the same, and
// links and unit may still have room to go back.
func (i *Installer) enterRollingBack(j *journal) error {
	err := j.enter(i.Paths.Journal(), rollingBack)
	if err == nil {
		return nil
	}
	if there, readErr := loadJournal(i.Paths.Journal()); readErr != nil || there == nil || there.Phase != begun {
		return err
	}
	i.Log.Warn("putting links and unit back all the same", "error", err)
	return nil
}

// undoDatabase restores the database that the old version had, if the new one
// may have touched it.
func (i *Installer) undoDatabase(ctx context.Context, j *journal, conn *systemd.Conn, mayStop bool) error {
	if !j.Database.Taken {
		return nil
	}
	if !j.Switched {
		if changed, err := i.changedEarly(ctx, j, conn, mayStop); err != nil || !changed {
			return err
		}
	}
	if j.OldServes {
		same, err := backup.SameSchema(ctx, j.Database.Path, j.Database.Dir)
		if err == nil && same {
			// The old process never stopped, and nothing it cannot read was
			// done to its database: it is left in peace, with the rows that it
			// wrote since the backup.
			return nil
		}
		if err != nil {
			i.Log.Warn("whether the version that failed changed the database under the old one cannot be told; the agent is restarted on its own database", "error", err)
		} else {
			i.Log.Warn("the version that failed changed the database under the old one; the agent is restarted on its own database")
		}
		// First: once the database is restored nothing tells any more that the
		// agent was stopped for it.
		j.OldServes = false
		if err := j.save(i.Paths.Journal()); err != nil {
			return err
		}
	}
	if conn != nil && mayStop {
		if err := i.stopToUndo(ctx, j, conn); err != nil {
			return err
		}
	}
	i.Log.Info("restoring the agent's database", "from", j.Database.Dir)
	if err := backup.Restore(ctx, backup.RestoreRequest{Dir: j.Database.Dir, Target: j.Database.Path}); err != nil {
		return fmt.Errorf("restore the database from %s: %w", j.Database.Dir, err)
	}
	return nil
}

// bringBack sees the old version run, where it ran before, and watches it hold.
func (i *Installer) bringBack(ctx context.Context, j *journal, conn *systemd.Conn) error {
	if conn == nil || j.OldServes {
		return nil
	}
	u, err := conn.Unit(ctx, AgentUnit)
	if err != nil {
		return err
	}
	if executesFrom(u.MainPID, j.To.Dir) {
		// Started between a stop of ours and the links.
		if err := i.heedStart(j, u); err != nil {
			return err
		}
	}
	if !j.Agent.State.manageable() {
		return nil
	}
	if !j.Switched && u.MainPID != 0 && u.MainPID == j.Agent.MainPID && u.InvocationID == j.Agent.InvocationID {
		return nil // nobody ever told it anything
	}
	c, err := loadConfig(i.Paths.Config())
	if err != nil {
		return err
	}
	dir := ""
	if j.From != nil {
		dir = j.From.Dir
	}
	window := c.Spec.Health.Window
	if j.Commit.Spec != nil {
		window = j.Commit.Spec.Health.Window
	}
	// The old version is not asked for its ready_url: it serves as it served.
	w, err := i.watch(ctx, conn, dir, HealthSpec{Window: window})
	if err != nil {
		return err
	}
	if stateOf(u) == agentRunning && u.MainPID != 0 && !executesFrom(u.MainPID, j.To.Dir) {
		_, err = health.Prove(ctx, conn, health.Running, w) // systemd started it at boot
	} else {
		_, err = health.Prove(ctx, conn, health.Restart, w)
	}
	if unhealthy, ok := errors.AsType[*health.UnhealthyError](err); ok && unhealthy.Stopped {
		i.Log.Info("the agent stays down: somebody stopped it while the old version was being watched")
		j.Agent.State = agentStopped
		return nil
	}
	if err != nil && j.Agent.State == agentFailing {
		i.Log.Warn("the agent fails as it did before the switch", "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("the old version was put back but does not hold: %w", err)
	}
	return nil
}

// closeUndone records how the transaction ended and removes the journal.
func (i *Installer) closeUndone(ctx context.Context, j *journal, conn *systemd.Conn) error {
	c, err := loadConfig(i.Paths.Config())
	if err != nil {
		return err
	}
	if last := c.Status.LastUpdate; last == nil || j.ID == "" || last.Transaction != j.ID {
		i.recordUndone(&c.Status, j)
	}
	if j.UnitsNew {
		if err := i.removeUnits(ctx, conn); err != nil {
			return err
		}
	}
	if i.neverEnabled(c) {
		i.forgetFirst(j.target())
	} else {
		i.dropUndone(j)
	}
	if err := c.save(i.Paths.Config()); err != nil {
		return err
	}
	if err := durable.Remove(i.Paths.Journal()); err != nil {
		return fmt.Errorf("close the journal: %w", err)
	}
	i.retain(c)
	return nil
}

// recordUndone counts a failure or an interruption, once: whoever is cut off before
// the journal is gone finds the transaction named.
func (i *Installer) recordUndone(s *Status, j *journal) {
	result := RolledBack
	if j.Untouched {
		result = FailedEarly
	}
	blame := j.Blame
	if j.Interrupted {
		result = Interrupt
		if recordInterruption(s, j.To) {
			blame = true
		}
	}
	reason := j.reason()
	s.LastUpdate = &LastUpdate{
		Time: i.timestamp(), Target: j.To.Version, TargetEdition: j.To.Edition,
		Result: result, Error: reason, SkippedBackup: j.Commit.SkippedBackup, Transaction: j.ID,
	}
	if blame {
		recordFailure(s, j.To, i.Now(), reason)
	}
}

// forgetFirst removes what a first enable that came to nothing would leave
// behind: the version, and the copies of what it replaced, all of which is in
// its place again.
func (i *Installer) forgetFirst(t target) {
	tree, ok, err := i.store().Lookup(t)
	if ok {
		err = i.store().Discard(tree, i.linkDirs())
	}
	err = errors.Join(err, durable.RemoveAll(i.Paths.Original()))
	if err != nil {
		i.Log.Warn("not all that the first enable left could be removed", "error", err)
	}
}
