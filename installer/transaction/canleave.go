package transaction

import (
	"context"
	"errors"
	"fmt"
	"os"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/space"
)

// checkEnds refuses an uninstall that could begin and not be ended, as for a file system that is read-only or full: no other command
// works while it is open.
func checkEnds(ctx context.Context, m *Machine, c state.Config, u state.Uninstall) error {
	copies, units, err := changesOf(ctx, m, c, u)
	if err == nil {
		err = host.CanLeave(m.Host, copies, units)
	}
	if err == nil {
		return nil
	}
	fix := "correct that"
	if path, is := errors.AsType[*os.PathError](err); is {
		fix = fmt.Sprintf("make %s writable (`findmnt -T %[1]s` and `lsattr -d %[1]s` show what is in the way)", path.Path)
	}
	if failure.Is[*space.Error](err) {
		fix = "make room there for programs that take the places of links"
	}
	return failure.Unchanged("the uninstall is refused, for it could not be ended: %w", err).
		To("%s; then run the command again", fix).Refused()
}

// changesOf are the files that take the places of links, and the files of units that change.
func changesOf(ctx context.Context, m *Machine, c state.Config, u state.Uninstall) (copies map[string]string, units []string, err error) {
	if u.KeepAgent {
		tree, err := m.toKeep(c)
		if err != nil {
			return nil, nil, err
		}
		copies, err = host.PlainCopies(m.Host, tree)
		return copies, nil, err
	}
	o, err := m.Host.Originals()
	if err == nil {
		err = m.Host.PlainUnit(ctx, &o)
	}
	return o.Copies(m.Host), o.Units(m.Host), err
}

// readUnit has systemd read a unit that changed since: what is asked before the agent is touched is to be about the unit that it is
// started by afterwards.
func readUnit(ctx context.Context, m *Machine, agent Agent) error {
	sight, err := agent.Look(ctx)
	if err != nil || !m.Host.AgentUnit().Unread(sight.Unit) {
		return err
	}
	m.Host.Log.Info("the agent's unit changed since systemd read it: it reads the files again", "unit", m.Host.Paths.AgentUnit())
	if err := agent.DaemonReload(ctx); err != nil {
		return failure.Unchanged("have systemd read the agent's unit, which changed: %w", err)
	}
	return nil
}
