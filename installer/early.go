package installer

import (
	"context"
	"errors"
	"fmt"

	"teleport-update/backup"
	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

// errTooSoon says that something can be told once the agent has been started.
var errTooSoon = errors.New("this cannot be told before the agent has started")

// changedEarly reports whether the database has to be restored although the
// switch was not noted as made. The links are the new version's before that, and
// whoever restarts the agent meanwhile starts it. By now they are the old one's
// again. An agent that is found running the new version is stopped first, so that
// what it does to the database is over when that is looked at.
func (i *Installer) changedEarly(ctx context.Context, j *journal, conn *systemd.Conn, mayStop bool) (bool, error) {
	if conn == nil {
		return false, nil
	}
	if mayStop {
		u, err := conn.Unit(ctx, AgentUnit)
		if err != nil {
			return false, err
		}
		early := executesFrom(u.MainPID, j.To.Dir) || executesFrom(uint32(procfs.PIDFile(u.PIDFile)), j.To.Dir)
		if !early && u.MainPID == j.Agent.MainPID && u.InvocationID == j.Agent.InvocationID {
			return false, nil
		}
		if early {
			if err := i.stopToUndo(ctx, j, conn); err != nil {
				return false, err
			}
		}
	}
	same, err := backup.SameSchema(ctx, j.Database.Path, j.Database.Dir)
	switch {
	case err == nil && same:
		return false, nil
	case err == nil:
		i.Log.Warn("the agent was restarted in the middle of the switch, and the new version changed the database")
	case !mayStop:
		return false, fmt.Errorf("%w: %w", errTooSoon, err)
	default:
		i.Log.Warn("the agent was restarted in the middle of the switch; whether the new version changed the database cannot be told", "error", err)
	}
	return true, nil
}
