package transaction

import (
	"cmp"
	"context"
	"fmt"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/layout"
)

// Open is how a command begins to change the host: it takes the update lock,
// clears away what others left, closes a transaction that was cut off, and reads
// the configuration. The caller must give the lock back.
func (m *Machine) Open(ctx context.Context) (c state.Config, unlock func(), err error) {
	if err := m.recoverTransient(ctx); err != nil {
		return state.Config{}, nil, err
	}
	release, err := m.LockUpdates(ctx)
	if err != nil {
		return state.Config{}, nil, err
	}
	defer func() {
		if unlock == nil {
			release()
		}
	}()
	if err := m.recoverLive(ctx); err != nil {
		return state.Config{}, nil, err
	}
	if !host.Exists(m.Host.Paths.Versions()) {
		// An uninstall was ended, and the lock went with all the rest.
		return m.Open(ctx)
	}
	if c, err = m.FreshConfig(); err != nil {
		return state.Config{}, nil, err
	}
	if err := m.FinishMove(ctx, &c); err != nil {
		m.Host.Log.Warn("units are in two folders, and the next run goes on moving them", "error", err)
	}
	if m.Host.Store.HasLeftovers() {
		// It may be long until something new comes and retention is due.
		m.Retain(ctx, c)
	}
	return c, release, nil
}

// FinishMove completes a move of units into another folder, if one has begun: updates.yaml names both.
// The caller holds the update lock.
func (m *Machine) FinishMove(ctx context.Context, c *state.Config) error {
	from := c.Status.UnitsLeft
	if from == "" {
		return nil
	}
	agent, err := m.Agent(ctx)
	if err != nil {
		return err
	}
	defer agent.Close()
	m.Host.Paths.UnitDir = cmp.Or(c.Spec.UnitDir, layout.UnitDir)
	if err := m.Host.MoveUnits(ctx, agent, from); err != nil {
		return fmt.Errorf("move units from %s to %s: %w", from, m.Host.Paths.UnitDir, err)
	}
	c.Status.UnitsLeft = ""
	return c.Save(m.Host.Paths.Config())
}
