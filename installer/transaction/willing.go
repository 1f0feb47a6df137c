package transaction

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"teleport-update/backup"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// What systemd will do with the agent's unit is asked before anything is changed. Each change may
// have to be undone, which takes a stop, a database at rest, and a start.

// checkWilling refuses a change that systemd would not carry out, or could not undo.
func (t *transaction) checkWilling(ctx context.Context, sight Sight, d state.Database) error {
	if !sight.State.Wanted() {
		return nil
	}
	if err := t.m.Host.CheckCanStop(sight.Unit); err != nil {
		return err
	}
	by, err := t.agent.Blockers(ctx, sight)
	if err != nil {
		return err
	}
	if len(by) > 0 {
		return &failure.RefusedError{Err: &systemd.BlockedError{Unit: t.m.Host.Paths.AgentUnit(), By: by}}
	}
	if d.Plan == state.KeepDatabase {
		return nil
	}
	starters, err := t.agent.ActiveOf(ctx, sight.Ties.Starters)
	if err != nil {
		return err
	}
	if len(starters) > 0 {
		return failure.Refuse("%s starts the agent again whenever it is down (Upholds=, or a .path unit), so its database cannot be exchanged: "+
			"`systemctl stop %[1]s` for the change, or remove that", strings.Join(starters, " "))
	}
	return t.checkSpared(sight)
}

// checkSpared refuses a change while a process of the agent's that a stop leaves uses the database:
// it would be in the way of a restore once the agent is down.
func (t *transaction) checkSpared(sight Sight) error {
	if !sight.Ties.SparesProcesses() || t.db == nil {
		return nil
	}
	err := t.db.CheckUnused(sight.ended())
	if !failure.Is[*backup.InUseError](err) {
		return err
	}
	return failure.Refuse("%w; a stop of %s leaves it (KillMode=%s), so the database could not be exchanged: wait for the end of its sessions",
		err, t.m.Host.Paths.AgentUnit(), sight.Ties.KillMode)
}

// losesData reports whether the agent's data go with each stop: then there is nothing to be backed
// up or restored, and the agent begins with no data after each start as it does without a
// change.
func (m *Machine) losesData(ctx context.Context, database string) (bool, error) {
	if !strings.HasPrefix(filepath.Clean(database), "/run/") {
		return false, nil
	}
	agent, err := m.Agent(ctx)
	if err != nil {
		return false, err
	}
	defer agent.Close()
	sight, err := agent.Look(ctx)
	if err != nil {
		return false, fmt.Errorf("see whether the agent's data outlive it: %w", err)
	}
	return sight.Ties.LosesOnStop(database), nil
}

// nameStarters adds to an error who has started the agent since it was stopped, if systemd did so
// for another unit.
func (t *transaction) nameStarters(ctx context.Context, err error) error {
	sight, lookErr := t.agent.Look(ctx)
	if lookErr != nil || sight.MainPID == 0 {
		return err
	}
	starters, lookErr := t.agent.ActiveOf(ctx, sight.Ties.Starters)
	switch {
	case lookErr != nil:
		return err
	case len(starters) > 0:
		return fmt.Errorf("%w; %s starts the agent again whenever it is down (Upholds=, or a .path unit): stop that first", err,
			strings.Join(starters, ", "))
	}
	return fmt.Errorf("%w; somebody starts the agent again whenever it is stopped: `journalctl --unit %s` shows when", err,
		t.m.Host.Paths.AgentUnit())
}
