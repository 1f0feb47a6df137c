package installer

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// Disable turns updates off. The agent and its version stay.
func (i *Installer) Disable(ctx context.Context) error {
	if bare, err := i.bare(); bare || err != nil {
		return err
	}
	return i.configure(ctx, func(c *state.Config) error {
		c.Spec.Enabled = false
		i.Machine.Host.Log.Info("updates are disabled", "version", c.Spec.ActiveVersion)
		return nil
	})
}

// bare reports whether updates were never enabled here: there is nothing to turn off,
// and nothing is written.
func (i *Installer) bare() (bool, error) {
	if err := i.readable(); err != nil {
		return false, err
	}
	bare := !host.Exists(i.Machine.Host.Paths.Versions())
	if bare {
		i.Machine.Host.Log.Info("updates were never enabled on this host; nothing to do")
	}
	return bare, nil
}

// readable says that this user may not look at the updater's records: then nobody can tell
// whether there are any.
func (i *Installer) readable() error {
	_, err := os.Lstat(i.Machine.Host.Paths.Config())
	if errors.Is(err, fs.ErrPermission) {
		return failure.Unchanged("%w", err).To("run the command as root")
	}
	return nil // what else is wrong, whoever reads it says
}

// configure changes updates.yaml under the update lock, after closing what was
// cut off. Nothing is written when change fails or changes nothing.
func (i *Installer) configure(ctx context.Context, change func(*state.Config) error) error {
	c, unlock, err := i.Machine.Open(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := change(&c); err != nil {
		return err
	}
	return c.Save(i.Machine.Host.Paths.Config())
}
