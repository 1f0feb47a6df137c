package systemd

import "context"

// StartTimer has systemd start the updater by its timer, see Units.Timer, and makes it
// read the units where they changed. A timer that an administrator has masked or disabled stays so.
func (c *Conn) StartTimer(ctx context.Context, name string, changed bool) error {
	timer, err := c.Unit(ctx, name)
	if err != nil {
		return err
	}
	if changed || timer.NeedDaemonReload || timer.LoadState != "loaded" {
		if err := c.DaemonReload(ctx); err != nil {
			return err
		}
		// What was just put in its place may be a mask.
		if timer, err = c.Unit(ctx, name); err != nil {
			return err
		}
	}
	off := timer.LoadState == "masked" || timer.UnitFileState == "disabled"
	if off || timer.ActiveState == "active" && !changed {
		return nil
	}
	return c.Start(ctx, name)
}

// StopTimer is the opposite of StartTimer. A run of the updater that the timer has started goes
// on.
func (c *Conn) StopTimer(ctx context.Context, name string) error {
	timer, err := c.Unit(ctx, name)
	if err != nil || timer.LoadState != "loaded" {
		return err
	}
	if err := c.Stop(ctx, name); err != nil {
		return err
	}
	// The stamp of its last run is a trace, no more: systemd before 243 cannot
	// remove it.
	_, _ = do(ctx, c, func(ctx context.Context, l *link) (struct{}, error) {
		return struct{}{}, l.calls.Object("org.freedesktop.systemd1", managerPath).
			CallWithContext(ctx, "org.freedesktop.systemd1.Manager.CleanUnit", 0, name, []string{"state"}).Store()
	})
	return nil
}
