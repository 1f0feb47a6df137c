package transaction

import (
	"context"
	"fmt"
)

// reloadSystemd makes systemd read the unit. At a boot at which it cannot be reached,
// the first tick does.
func (t *transaction) reloadSystemd(ctx context.Context) error {
	later, err := t.reloadOrLeave(ctx)
	if later {
		return t.j.journalReloadOwed(true)
	}
	return wrap(err, "make systemd read the old unit: %w")
}

// reloadOrLeave makes systemd read its files, or leaves that for later where it cannot be
// reached.
func (t *transaction) reloadOrLeave(ctx context.Context) (later bool, err error) {
	err = t.agent.DaemonReload(ctx)
	if _, gone := t.agent.(unreachable); gone {
		t.m.Host.Log.Warn("systemd cannot be reached; the next run makes it read the unit", "error", err)
		return true, nil
	}
	return false, err
}

// settleReload makes systemd read what it could not be told of at boot.
func (t *transaction) settleReload(ctx context.Context) error {
	if !t.j.Agent.ReloadOwed {
		return nil
	}
	if err := t.agent.DaemonReload(ctx); err != nil {
		return fmt.Errorf("make systemd read the unit: %w", err)
	}
	return t.j.journalReloadOwed(false)
}
