package installer

import (
	"context"

	"teleport-update/installer/host"
	"teleport-update/internal/successor"
)

// Setup writes the updater's own units, and the fixed copy of the updater that
// they run, where no package did.
func (i *Installer) Setup(ctx context.Context) error {
	unlock, err := i.Machine.LockUpdates(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := i.Machine.CheckReadable(); err != nil {
		return err // the copy that is there may be of the newer updater
	}
	// Whoever cannot read updates.yaml takes a version for active.
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
