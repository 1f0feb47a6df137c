package transaction

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"teleport-update/installer/host"
	"teleport-update/internal/procfs"
)

// lookFirst looks, while the agent runs, whether all of it can go back. What is in the
// way and stays keeps the agent from being stopped for nothing: the new version runs on,
// and what is in the way is named. As long as that is so, a run only looks.
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

// whyNotBack is what keeps links, unit or database from going back, as far as that can be
// seen while the agent runs.
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
		if err := u.held.canStartOn(ctx, true); err != nil {
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
		// What was found only when the agent was down is looked at more closely.
		err = u.canRestore(ctx, before)
	}
	if err == nil || u.needNotGoBack(ctx) {
		return nil
	}
	return fmt.Errorf("the database cannot go back: %w", err)
}

// isAgent reports whether what runs is an agent, and no program that others had systemd start in its place: the new version, also
// if its folder was moved, or the process of before, which serves on, on a database that may not be its own.
func (u *undoing) isAgent(s Sight) bool {
	if u.j.Watch.OldServes || s.runsFrom(u.j.To.ProgramsDir()) {
		return true
	}
	path := u.j.Database.Path
	return path != "" && slices.ContainsFunc(s.serving(), func(p procfs.Process) bool {
		return procfs.Host().HasDatabase(p.PID, filepath.Base(path))
	})
}

// canRestore looks at what a restore needs while the agent runs; closely, down to the
// content of the backup.
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

// canRestoreFor is CanRestore, with what the agent's processes have open left aside.
func (u *undoing) canRestoreFor(db restoredDatabase, group []int) error {
	return u.held.withBackup(func(dir string) error { return db.CanRestore(dir, group) })
}
