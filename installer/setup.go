package installer

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/successor"
)

// Setup writes the updater's own units, and the fixed copy of the updater that they run, if no package did.
func (i *Installer) Setup(ctx context.Context) error {
	unlock, err := i.Machine.LockUpdates(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := i.Machine.CheckReadable(); err != nil {
		return err // the copy that is there may be of the newer updater
	}
	// If updates.yaml cannot be read, a version counts as active.
	c, err := i.Machine.FreshConfig()
	first := err == nil && c.Spec.ActiveVersion == ""
	if err := i.installUnits(ctx, host.Installing{First: first}); err != nil {
		return err
	}
	i.Machine.Host.Log.Info("the updater's own units are in place", "folder", i.Machine.Host.Paths.UnitDir)
	return nil
}

func (i *Installer) installUnits(ctx context.Context, how host.Installing) error {
	agent, err := i.Machine.Agent(ctx)
	if err != nil {
		return err
	}
	defer agent.Close()
	if _, err = i.Machine.Host.InstallUnits(ctx, agent, how); err != nil || successor.Current() != nil {
		return err // an updater that came with a version has to show first that it can switch
	}
	return i.Machine.Host.PromoteCopy(ctx)
}

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

// readable returns an error if this user may not look at the updater's records: then nobody can tell whether there are any.
func (i *Installer) readable() error {
	_, err := os.Lstat(i.Machine.Host.Paths.Config())
	if errors.Is(err, fs.ErrPermission) {
		return failure.Unchanged("%w", err).To("run the command as root")
	}
	return nil // a reader of the file reports any other error
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
