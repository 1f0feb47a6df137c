package installer

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
)

// ticks is what the runs of the timer remember of this boot.
func (i *Installer) ticks() state.Ticks {
	clock := state.Clock{Now: i.Machine.Now()}
	if i.Up != nil {
		clock.Up = i.Up()
	}
	return state.LoadTicks(i.Machine.Host.Paths.Ticks(), i.Machine.Host.Paths.DataDir, i.Machine.BootID(), clock)
}

// up is for how long this host has been up, also while it slept; zero if that cannot be read.
func up() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// succeeded forgets what runs of the timer failed with: a person's command ended well.
func (i *Installer) succeeded() {
	m := i.ticks()
	m.Failing, m.Unreachable, m.Error, m.Good = nil, nil, "", i.Machine.Timestamp()
	if err := m.Save(i.Machine.Host.Paths.Ticks()); err != nil {
		i.Machine.Host.Log.Debug("that the command ended well could not be recorded for status", "error", err)
	}
}

// changeStatus changes the status in updates.yaml under the update lock.
func changeStatus(ctx context.Context, m *transaction.Machine, change func(*state.Config)) error {
	unlock, err := state.Lock(ctx, m.Host.Paths.UpdateLock(), state.LockPatience)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := m.FreshConfig()
	if err != nil {
		return err
	}
	change(&c)
	return c.Save(m.Host.Paths.Config())
}
