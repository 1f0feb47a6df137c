package transaction

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"teleport-update/backup"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// errTooSoon means that something can be found out only once the agent has been started.
var errTooSoon = errors.New("this cannot be told before the agent has started")

// checkDatabase checks, before anything is moved, whether the database can go back, or need not: it
// is one pair with the agent's link and its unit. If neither is so, the new version stays whole.
func (u *undoing) checkDatabase(ctx context.Context) error {
	if u.kept {
		return nil
	}
	if err := u.journalRemovedData(ctx); err != nil { // with the stop
		return err
	}
	if !u.j.Database.Taken || u.j.Database.Restored || u.needNotGoBack(ctx) {
		return nil
	}
	db, err := u.database(ctx)
	if err == nil {
		err = u.canRestoreFor(db, nil)
	}
	if failure.Is[*backup.InUseError](err) {
		if err = u.held.waitUnused(ctx, afterStop); err == nil {
			err = u.canRestoreFor(db, nil)
		}
	}
	if err != nil {
		return u.cannotGoBack(ctx, fmt.Errorf("the database cannot go back: %w", err))
	}
	return u.j.setInTheWay("")
}

// awaits returns an error for a part that is to go back and is not there yet: the file system of the
// database may be mounted late, and a program that somebody took away cannot be fetched at boot.
func (u *undoing) awaits(ctx context.Context) error {
	if u.j.From != nil && u.j.reached("reload") && !startable(*u.j.From) {
		return fmt.Errorf("there is no program to execute in %s", u.j.From.ProgramsDir())
	}
	if !u.j.Database.Taken || u.j.Database.Restored {
		return nil
	}
	_, err := u.database(ctx)
	return err
}

// keepPair makes sure, before the agent starts, that the old version does not start on the new
// version's database: an undoing that was cut off may have put back the links alone.
func (u *undoing) keepPair(ctx context.Context) error {
	if !u.j.reached("reload") || !host.AgentLinkIsBack(u.j.Links) {
		return nil
	}
	return u.placeNew(ctx)
}

// restoreDatabase restores the database that the old version had, if the new one
// may have touched it.
func (u *undoing) restoreDatabase(ctx context.Context) error {
	if name := u.j.Database.Aside; name != "" && !u.kept && u.j.reached("reload") {
		if err := u.putAsideBack(ctx, name); err != nil {
			return u.cannotGoBack(ctx, fmt.Errorf("put the damaged database back: %w", err))
		}
		return nil
	}
	if u.kept || !u.j.Database.Taken || u.j.Database.Restored {
		return nil
	}
	if !u.j.reached("reload") {
		if changed, err := u.changedMeanwhile(ctx); err != nil || !changed {
			return err
		}
	}
	if u.j.Watch.OldServes {
		if u.sameUnderOld(ctx) {
			return nil
		}
		if err := u.recordOldStop(); err != nil {
			return err
		}
	}
	if u.untouched && u.oldIsUntouched(ctx) {
		// Links and unit are back: any start from now on starts the old version.
		u.log.Info("the version before has served all the time, and goes on with its database")
		return u.j.setOldServes(true)
	}
	err := u.stopAndRestore(ctx)
	if err == nil {
		return u.j.setRestored(true)
	}
	if journalErr := u.journalRemovedData(ctx); journalErr != nil || !u.j.Database.Taken {
		return journalErr
	}
	same, schemaErr := u.sameSchema(ctx)
	switch {
	case schemaErr != nil || !same:
		return u.cannotGoBack(ctx, fmt.Errorf("the database cannot go back: %w", err))
	case u.kept, u.exchanged(): // kept: the agent could not be stopped
		return err // the old version can do without until the next run
	}
	u.log.Warn("the old version goes on with the database as it is, which it can read", "error", err)
	return nil
}

// putAsideBack gives the version before its database back, damaged as it was: the one in its place
// belongs to the version that failed.
func (u *undoing) putAsideBack(ctx context.Context, name string) error {
	if err := u.stopAgent(ctx); err != nil {
		return err
	}
	db, err := u.moved(ctx)
	if err != nil {
		return err
	}
	return db.PutBack(name)
}

// moveFirstAside moves a database aside that is there now and was not when the transaction began:
// the version that failed may have made it, and the version before cannot start then. It reports
// whether there was one. An old process that never stopped serving goes on, and keeps a database
// that it has open.
func (u *undoing) moveFirstAside(ctx context.Context) (moved bool, err error) {
	if !u.j.Database.Absent || !u.j.reached("reload") {
		return false, nil
	}
	db, err := u.moved(ctx)
	if errors.Is(err, backup.ErrNoDatabase) {
		return false, nil
	}
	if err == nil && !u.j.Watch.OldServes {
		err = u.agent.Stop(ctx, atOnce)
	} else if err == nil && failure.Is[*backup.InUseError](db.CheckUnused(nil)) {
		sight, lookErr := u.agent.Look(ctx)
		if lookErr != nil {
			return false, lookErr
		}
		if db.CheckUnused(sight.Group) == nil {
			u.log.Warn("the agent, which serves on, has the first database open, and keeps it", "database", db.Path())
			return false, nil
		}
	}
	var to string
	if err == nil {
		to, err = db.MoveAside("of-"+u.j.To.Version, u.now(), u.j.journalAside)
	}
	if errors.Is(err, backup.ErrNoDatabase) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("move the database of version %s aside: %w", u.j.To, err)
	}
	u.log.Warn("the version that failed made the first database, with which the one before may not run; it is kept aside",
		"aside", to)
	return true, nil
}

// stopAndRestore restores while the agent is down. Somebody may start it in between, or may have
// started it since its first stop.
func (u *undoing) stopAndRestore(ctx context.Context) (err error) {
	for range 3 {
		if err := u.stopAgent(ctx); err != nil {
			return err
		}
		var db restoredDatabase
		if db, err = u.database(ctx); err == nil {
			err = u.held.dropReserve(ctx)
		}
		if err == nil {
			err = u.held.withBackup(func(dir string) error {
				if host.Exists(dir) {
					u.log.Info("restoring the agent's database", "from", dir)
				}
				progress := watchRestore(u.log, dir)
				defer progress.End()
				return db.Restore(ctx, dir)
			})
		}
		if !failure.Is[*backup.InUseError](err) || u.boot {
			break
		}
		if sight, lookErr := u.agent.Look(ctx); lookErr != nil || sight.MainPID == 0 {
			break // it is not the agent that has it open
		}
	}
	if failure.Is[*backup.InUseError](err) && !u.boot {
		err = u.nameStarters(ctx, err)
	}
	return wrap(err, "restore the database from %s: %w", u.j.Database.Dir)
}

// changedMeanwhile reports whether the database has to be restored although the transaction was not
// noted as made. The links are the new version's before that, and a restart of the agent meanwhile
// starts it. The links are the old version's again when this is called. An agent that is found
// running the new version is stopped first, so that it has done all that it does to the database
// when that is looked at.
func (u *undoing) changedMeanwhile(ctx context.Context) (bool, error) {
	sight, err := u.agent.Look(ctx)
	switch runs := sight.runsFrom(u.j.To.ProgramsDir()); {
	case err == nil && sight.State == state.AgentUnknown:
		return false, nil
	case u.boot: // nothing runs yet, and files show it
	case err != nil:
		return false, err
	case runs:
		if err := u.stopAgent(ctx); err != nil {
			return false, err
		}
	case sight.MainPID == u.j.Agent.MainPID && sight.InvocationID == u.j.Agent.InvocationID:
		return false, nil
	}
	same, err := u.sameSchema(ctx)
	switch {
	case err == nil && same:
		return false, nil
	case err == nil:
		u.log.Warn("the agent was restarted in the middle of the transaction, and the new version changed the database")
	case u.boot:
		return false, fmt.Errorf("%w: %w", errTooSoon, err)
	default:
		u.log.Warn("the agent was restarted in the middle of the transaction; the new version may have changed the database",
			"error", err)
	}
	return true, nil
}

// nameStarters adds to an error which unit has started the agent since it was stopped, if systemd
// did so for another unit.
func (u *undoing) nameStarters(ctx context.Context, err error) error {
	sight, lookErr := u.agent.Look(ctx)
	if lookErr != nil || sight.MainPID == 0 {
		return err
	}
	starters, lookErr := u.units.ActiveOf(ctx, sight.Ties.Starters)
	switch {
	case lookErr != nil:
		return err
	case len(starters) > 0:
		return fmt.Errorf("%w; %s starts the agent again whenever it is down (Upholds=, or a .path unit): stop that first", err,
			strings.Join(starters, ", "))
	}
	return fmt.Errorf("%w; somebody starts the agent again whenever it is stopped: `journalctl --unit %s` shows when", err,
		u.unit)
}
