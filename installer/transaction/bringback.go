package transaction

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"teleport-update/health"
	"teleport-update/health/settings"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/procfs"
)

// bringBack sees that the old version runs again if it ran before, and watches whether it is
// healthy. After an undoing that failed, and that the next run begins again, it only sees that some
// agent runs: some agent beats none, as at boot.
func (u *undoing) bringBack(ctx context.Context) error {
	err := u.seeItBack(ctx)
	seen := err == nil || failure.Is[*health.UnhealthyError](err) || errors.Is(err, health.ErrHostStopping)
	if seen || u.err != nil || u.j.Watch.OldServes || !u.j.Agent.State.Wanted() {
		return err
	}
	return errors.Join(err, u.agent.Start(ctx))
}

func (u *undoing) seeItBack(ctx context.Context) error {
	if u.err != nil {
		// First: no other restore may lose what an agent writes from now on, and status shows what is in
		// the way.
		err := u.j.flush()
		if u.j.Agent.State.Wanted() {
			err = errors.Join(err, u.agent.Start(ctx))
		}
		return err
	}
	if err := u.reloads.settleReload(ctx); err != nil {
		return err
	}
	if u.j.Watch.Over {
		return nil
	}
	warn(u.log, u.held.dropReserve(ctx), "the agent has less room than it could have")
	if err := u.seeFilesBack(ctx); err != nil {
		return err
	}
	if err := u.seeOldThere(ctx); err != nil && u.j.Agent.State.Wanted() {
		u.log.Error("the agent is tried all the same", "error", err)
	}
	err := u.watchOld(ctx)
	if err == nil && u.j.Watch.OldServes {
		// Its next start is not watched.
		_, err = u.moveFirstAside(ctx)
	}
	if failure.Is[*health.UnhealthyError](err) {
		if moved, moveErr := u.moveFirstAside(ctx); moved || moveErr != nil {
			if err = moveErr; err == nil {
				err = u.watchOld(ctx)
			}
		}
	}
	unhealthy, ok := errors.AsType[*health.UnhealthyError](err)
	if !ok || unhealthy.Prevented != nil {
		// An obstacle on the host says nothing about the old version: each run tries again.
		return err
	}
	if unhealthy.NeverBegan && u.j.Verdict.NeverBegan {
		u.log.Error("systemd begins neither version, so the host keeps the agent down: each run tries again", "error", err)
		return errors.Join(err, u.j.journalAgainst(state.AgainstCircumstances))
	}
	// The next run tries it once more: then the journal is closed all the same. Everything is back in
	// its place, and while the journal is open no other version can come and help.
	if u.j.Watch.OldFails == "" {
		return errors.Join(err, u.j.journalOldFails(unhealthy.Error()))
	}
	u.log.Error("the version before is not healthy either; its links, unit and database are back: try another version", "error", err)
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
	if sight.mainFrom(u.j.To.ProgramsDir()) {
		// Started between a stop of ours and the links.
		if err := u.journalIfStarted(sight); err != nil {
			return err
		}
	}
	if !u.j.Agent.State.Wanted() || sight.State == state.AgentUnknown {
		return nil
	}
	if sight.unknown() {
		u.log.Warn("systemd knows no unit of the agent, so none is started; links and database are back", "unit", sight.Name)
		return u.j.setAgent(state.AgentStopped)
	}
	stops := u.ownStopGoesOn(sight)
	if !u.j.reached("reload") && !stops && sight.MainPID != 0 && sight.MainPID == u.j.Agent.MainPID &&
		sight.InvocationID == u.j.Agent.InvocationID {
		return nil // it was never stopped or reloaded
	}
	dir, another := "", sight.mainFrom(u.j.To.ProgramsDir())
	if u.j.From != nil && !u.j.Database.Foreign && host.AgentLinkLed(u.j.Links, u.j.From.ProgramsDir()) {
		// A program that others had systemd start in its place is no agent.
		dir = u.j.From.ProgramsDir()
		another = !sight.runsFrom(dir)
	}
	// The old version is not asked for its ready_url: it serves as it served. If nobody knows how long
	// it is to be watched, the usual time is enough.
	spec, _ := u.config.healthSpec()
	w := watchOf(dir, state.HealthSpec{Settings: settings.Settings{Window: spec.Window}}, sight)
	by := health.Restart
	switch {
	case stops:
		by = health.Start // takes the place of the stop, or comes after it
	case sight.State == state.AgentRunning && sight.MainPID != 0 && !another:
		by = health.Running // systemd started it at boot
	}
	_, err = u.agent.Prove(ctx, by, w)
	if unhealthy, ok := errors.AsType[*health.UnhealthyError](err); ok && unhealthy.Stopped {
		u.log.Info("the agent stays down: somebody stopped it while the old version was being watched")
		return u.j.setAgent(state.AgentStopped)
	}
	if err != nil && u.j.Agent.State == state.AgentFailing {
		u.log.Warn("the agent fails as it did before the transaction", "error", err)
		return nil
	}
	return wrap(err, "the old version was put back but is not healthy: %w")
}

// ownStopGoesOn reports whether the transaction's own stop goes on, or waits for other units to stop first: the
// updater was killed meanwhile, or gave the stop up.
func (u *undoing) ownStopGoesOn(s Sight) bool {
	return u.j.Database.Stop && !u.j.reached("stop") && s.MainPID != 0 && (s.StopPending || s.ActiveState == "deactivating")
}

// lookFirst checks, while the agent runs, whether all of it can go back. If something is in the
// way, the agent is not stopped for nothing: the new version runs on, and the obstacle is named.
// While it lasts, a run only looks.
func (u *undoing) lookFirst(ctx context.Context) error {
	if host.AgentLinkIsBack(u.j.Links) && (u.j.Database.Restored || !u.j.Database.Taken) {
		return nil // the pair is back
	}
	err := u.whyNotBack(ctx)
	if err == nil {
		return nil
	}
	if host.AgentLinkIsBack(u.j.Links) {
		return u.cannotGoBack(ctx, err)
	}
	// The new version is whole as it is. seeItBack writes down what is in the way.
	u.kept = true
	return errors.Join(err, u.j.setInTheWay(err.Error()))
}

// whyNotBack returns why links, unit or database cannot go back, as far as that can be seen while
// the agent runs.
func (u *undoing) whyNotBack(ctx context.Context) error {
	if err := host.CanRevert(host.Begun(u.j.Links, u.original), u.j.Unit); err != nil {
		return fmt.Errorf("links and unit cannot go back: %w", err)
	}
	if err := u.seeOldThere(ctx); err != nil {
		return err
	}
	sight, err := u.agent.Look(ctx)
	if err == nil && sight.Running() && u.isAgent(sight) {
		if err := u.place.CheckCanStop(sight.Unit); err != nil {
			return err
		}
		if err := u.held.canStartBefore(ctx); err != nil {
			return fmt.Errorf("the version before would not start: %w", err)
		}
	}
	if !u.j.Database.Taken || u.j.Database.Restored {
		return nil
	}
	if err == nil && !sight.started() && u.needNotGoBack(ctx) {
		return nil // there is no agent: nobody is waited for
	}
	patience, before := u.patience, u.j.Database.InTheWay != ""
	if before {
		patience = min(patience, afterStop)
	}
	err = u.held.waitUnused(ctx, patience)
	if err == nil {
		// An obstacle that was found only when the agent was down is looked for more closely.
		err = u.canRestore(ctx, before)
	}
	if err == nil || u.needNotGoBack(ctx) {
		return nil
	}
	return fmt.Errorf("the database cannot go back: %w", err)
}

// isAgent reports whether an agent runs, and no program that others had systemd start in its place: the new version, even if its
// folder was moved, or the previous process, which serves on, on a database that may not be its own.
func (u *undoing) isAgent(s Sight) bool {
	if u.j.Watch.OldServes || s.runsFrom(u.j.To.ProgramsDir()) {
		return true
	}
	path := u.j.Database.Path
	return path != "" && slices.ContainsFunc(s.serving(), func(p procfs.Process) bool {
		return procfs.Host().HasDatabase(p.PID, filepath.Base(path))
	})
}

// canRestore checks what a restore needs while the agent runs; closely checks the content of the
// backup, too.
func (u *undoing) canRestore(ctx context.Context, closely bool) error {
	db, err := u.database(ctx)
	if err != nil {
		return err
	}
	sight, err := u.agent.Look(ctx)
	if err != nil {
		return err
	}
	if err := u.canRestoreFor(db, sight.ended()); err != nil || !closely {
		return err
	}
	return u.held.withBackup(func(dir string) error { return db.CheckWhole(ctx, dir) })
}

// canRestoreFor is CanRestore, but ignores what the agent's processes have open.
func (u *undoing) canRestoreFor(db restoredDatabase, group []int) error {
	return u.held.withBackup(func(dir string) error { return db.CanRestore(dir, group) })
}

// sameUnderOld reports whether the old process, which never stopped, may go on with the rows that
// it wrote since the backup: its database still has the tables that it can read.
func (u *undoing) sameUnderOld(ctx context.Context) bool {
	same, err := u.sameSchema(ctx)
	switch {
	case err == nil && same:
		return true
	case err != nil:
		u.log.Warn("the version that failed may have changed the database under the old one", "error", err)
	default:
		u.log.Warn("the version that failed changed the database under the old one")
	}
	return false
}

// recordOldStop records that the previous process, which serves on, is about to be stopped for its database. Once the database
// is restored, nothing else shows that the agent was stopped for it.
func (u *undoing) recordOldStop() error {
	if !u.j.Watch.OldServes {
		return nil
	}
	u.log.Warn("the agent is restarted on its own database")
	return u.j.journalOldStopped()
}

// oldIsUntouched reports whether the previous process serves on, and no other version has touched
// its database: the updater was cut off before the reload brought a process. A process that was
// replaced, and only sees its sessions to their end, is no longer in the PID file.
func (u *undoing) oldIsUntouched(ctx context.Context) bool {
	backedUp := u.j.Database.Taken && !u.j.Database.Restored
	if u.boot || !backedUp || !u.j.reached("reload") || u.exchanged() {
		return false
	}
	sight, err := u.agent.Look(ctx)
	was := u.j.Agent
	switch {
	case err != nil || sight.State != state.AgentRunning || sight.JobPending:
		return false
	case sight.MainPID == 0 || sight.MainPID != was.MainPID || sight.InvocationID != was.InvocationID:
		return false
	case sight.PIDFile != "" && sight.Serving.PID != int(sight.MainPID), sight.anyFrom(u.j.To.ProgramsDir()):
		return false
	}
	return u.needNotGoBack(ctx)
}

// stopsMasked reports whether an undoing that is about to stop the agent would leave the host
// without one: its unit is masked, and it runs the new version, or the old version on a database
// with which it can go on.
func (u *undoing) stopsMasked(ctx context.Context) bool {
	s, err := u.agent.Look(ctx)
	return err == nil && s.LoadState == "masked" && s.Running() &&
		(s.runsFrom(u.j.To.ProgramsDir()) || !u.j.Database.Taken || u.needNotGoBack(ctx))
}

// stopNew stops the version that failed, so that the old one can be put back. If the agent was never
// reloaded, that version runs only if somebody else restarted the agent by the new links, or is
// doing so now. An old process that never stopped serving is left in peace if possible.
func (u *undoing) stopNew(ctx context.Context) error {
	if err := u.journalRemovedData(ctx); err != nil {
		return err
	}
	switch {
	case !u.j.reached("reload"):
		sight, err := u.agent.Look(ctx)
		if err != nil || !sight.runsFrom(u.j.To.ProgramsDir()) && !sight.begins() {
			return err
		}
	case u.j.Watch.OldServes && !u.j.Database.Taken:
		return nil
	case u.j.Watch.OldServes:
		if u.sameUnderOld(ctx) {
			return nil
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
		return maskedError(u.unit)
	}
	if err := u.recordOldStop(); err != nil {
		return err
	}
	return u.stopAgent(ctx)
}
