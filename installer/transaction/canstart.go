package transaction

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"teleport-update/backup"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/procfs"
	"teleport-update/internal/space"
)

// canStart returns why an agent that is stopped now would not come back, or would come back on
// another database than its own.
func (t *transaction) canStart(ctx context.Context) error {
	if err := t.canStartOn(ctx, false); err != nil {
		return err
	}
	sight, err := t.agent.Look(ctx)
	if err == nil && sight.Running() {
		_, err = tryAgent(ctx, t.m, t.agent, sight)
	}
	return err
}

// canStartBefore returns why the version before would not come back. A trial that cannot be made refuses nothing: an undoing
// needs nothing new.
func (t *transaction) canStartBefore(ctx context.Context) error {
	if err := t.canStartOn(ctx, true); err != nil {
		return err
	}
	if err := t.tryBefore(ctx); failure.Is[*failure.RefusedError](err) {
		return err
	}
	return nil
}

// canStartOn is canStart without a trial; if restores is set, the database need not be there.
func (t *transaction) canStartOn(ctx context.Context, restores bool) error {
	if err := CheckRun(SystemdRun); err != nil {
		return err
	}
	sight, err := t.agent.Look(ctx)
	if err != nil {
		return err
	}
	if err := checkNeeds(ctx, t.m, t.agent, sight); err != nil {
		return err
	}
	if !t.j.Database.Taken {
		return t.m.checkStartsAgain(ctx, t.agent, sight, t.j.Database.Path)
	}
	err = t.m.Host.CheckCanStart(ctx, sight.Unit, t.j.Database.Path, t.agent.Unit)
	if restores && failure.Is[*space.Error](err) && t.hasReserve(ctx) {
		err = nil // the reserve is dropped before the start
	}
	if err != nil {
		return err
	}
	db, err := backup.Open(t.j.Database.Path) // not the one that is open: another may be in its place
	if err == nil {
		defer db.Close()
		err = t.checkFolder(ctx, db)
	}
	if err == nil {
		if err = db.There(); restores && errors.Is(err, backup.ErrNoDatabase) {
			err = nil
		}
	}
	if err != nil {
		return &failure.RefusedError{Err: fmt.Errorf("the agent's database is not where it was: %w", err)}
	}
	return nil
}

// checkNeeds returns which unit that the agent needs, or which file that is closed to its user, keeps it from starting again.
func checkNeeds(ctx context.Context, m *Machine, agent Agent, sight Sight) error {
	if err := host.CheckNeeds(ctx, sight.Unit, agent.Unit); err != nil {
		return err
	}
	return checkReach(ctx, m, agent, sight)
}

// checkReach is the part of checkNeeds about files. programs are those that the unit starts beside its own. An error refuses nothing.
func checkReach(ctx context.Context, m *Machine, agent Agent, sight Sight, programs ...string) error {
	why, err := host.CheckReach(ctx, m.Host, sight.Unit, agent.Unit, programs...)
	if err != nil {
		m.Host.Log.Debug("it cannot be told whether the agent's user may use all that the agent needs", "error", err)
	}
	return why
}

// checkStartsAgain is CheckCanStart for an agent without a backup that names its database: if the
// agent has a database open, and would find nothing in its place, it would start on a new one.
func (m *Machine) checkStartsAgain(ctx context.Context, agent Agent, sight Sight, database string) error {
	if err := m.Host.CheckCanStart(ctx, sight.Unit, database, agent.Unit); err != nil {
		return err
	}
	path, err := m.Host.Database()
	if err != nil || m.Host.LooksElsewhere(sight.Unit) {
		return nil
	}
	there := host.Exists(path) || procfs.Host().Sees(int(sight.MainPID), path)
	// Not all of its group: a session's file of that name says nothing.
	open := m.OpenByName([]int{int(sight.MainPID), sight.Serving.PID}, filepath.Base(path))
	if there {
		return anotherDatabase(open, path)
	}
	if open != "" {
		return failure.Refuse("its database is open as %s, and nothing is at %s: "+
			"it was removed or renamed, its file system is not mounted there, or data_dir was changed; "+
			"put it back, and only where data_dir was changed on purpose restart the agent yourself", open, path)
	}
	return nil
}

// anotherDatabase refuses a change while the agent has another database open than its unit and its
// configuration lead to. The agent's user controls what a process shows: it is a reason to refuse,
// and nothing is done with the file that it names.
func anotherDatabase(open, path string) error {
	if open == "" || open == path || filepath.Base(open) != filepath.Base(path) ||
		filepath.Base(filepath.Dir(open)) != filepath.Base(filepath.Dir(path)) {
		return nil
	}
	real, err := os.Stat(path)
	other, otherErr := os.Stat(open)
	if err != nil || otherErr != nil || os.SameFile(real, other) {
		return nil // the same by another way, or the agent has a view of its own of the host's files
	}
	return failure.Refuse("it has the database %s open, and its unit and configuration lead to %s: "+
		"if the configuration was changed on purpose, restart the agent yourself first", open, path)
}

// FreshConfig reads updates.yaml again. A survey of the run is older: the file may have been written since, by the
// updater that held the update lock before this one, or by a transaction of this run. So a caller that has just taken
// the lock reads the configuration here, and so does one that goes on after a transaction in the same lock. All
// others have it from the survey of the run or from their caller.
//
// A person may edit the file at any time. What a transaction needs of it is in its journal.
func (m *Machine) FreshConfig() (state.Config, error) { return m.Host.Paths.LoadConfig() }
