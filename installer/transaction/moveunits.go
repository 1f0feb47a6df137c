package transaction

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/layout"
)

// MoveUnits moves the agent's unit and the updater's own into another folder. Neither the agent nor the
// version changes. The caller holds the update lock.
//
// updates.yaml names the new folder and the old one first. From then on whoever takes the lock next
// completes the move. Until all is in the new folder nothing leaves the old one, so that
// systemd finds each unit in one of them at any time.
func (m *Machine) MoveUnits(ctx context.Context, c *state.Config, to string) error {
	before := *c
	c.Status.UnitsLeft = m.Host.Paths.UnitDir
	c.Spec.UnitDir = m.Host.In(to).Paths.Given(c.Spec).UnitDir
	if err := c.Save(m.Host.Paths.Config()); err != nil {
		*c = before
		return failure.Unchanged("note the folder of units: %w", err)
	}
	if err := m.finishMove(ctx, c); err != nil {
		return failure.In("units are in two folders, and the agent goes on", err)
	}
	return nil
}

// finishMove completes a move of units, if one has begun.
func (m *Machine) finishMove(ctx context.Context, c *state.Config) error {
	from, to := c.Status.UnitsLeft, cmp.Or(c.Spec.UnitDir, layout.UnitDir)
	if from == "" {
		return nil
	}
	m.Host.Paths.UnitDir = to
	if from != to && m.Host.In(from).HasUnits() {
		if err := m.moveUnits(ctx, from, to); err != nil {
			return fmt.Errorf("move units from %s to %s: %w", from, to, err)
		}
	}
	c.Status.UnitsLeft = ""
	return c.Save(m.Host.Paths.Config())
}

func (m *Machine) moveUnits(ctx context.Context, from, to string) error {
	agent, err := m.Agent(ctx)
	if err != nil {
		return err
	}
	defer agent.Close()
	if err := m.Host.CopyUnits(from); err != nil {
		return err
	}
	// systemd reads the new files before the old ones go: it knows each unit all the time.
	if err := m.readMoved(ctx, agent); err != nil {
		return err
	}
	if err := m.Host.LeaveUnits(from); err != nil {
		return err
	}
	if err := agent.DaemonReload(ctx); err != nil {
		return err
	}
	m.Host.Log.Info("units are in another folder", "folder", to, "before", from)
	if others := m.Host.OthersLeft(from); len(others) > 0 {
		m.Host.Log.Warn("drop-ins of the agent's unit stay in the folder before: move them, if they are not there at boot",
			"files", strings.Join(others, ", "), "to", to)
	}
	return nil
}

func (m *Machine) readMoved(ctx context.Context, agent host.Timer) error {
	if u := m.Host.OwnUnits(); !u.RecoveryOnly {
		return agent.StartTimer(ctx, u.Timer(), true)
	}
	return agent.DaemonReload(ctx)
}
