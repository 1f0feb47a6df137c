package installer

import (
	"context"

	"teleport-update/installer/host"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/space"
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
	if err := i.installUnits(ctx); err != nil {
		return err
	}
	i.Machine.Host.Log.Info("the updater's own units are in place", "folder", i.Machine.Host.Paths.UnitDir)
	return nil
}

func (i *Installer) installUnits(ctx context.Context) error {
	agent, err := i.Machine.Agent(ctx)
	if err != nil {
		return err
	}
	defer agent.Close()
	if _, err = i.Machine.Host.InstallUnits(ctx, agent); err != nil || successor.Current() != nil {
		return err // an updater that came with a version has to show first that it can switch
	}
	return i.Machine.Host.PromoteCopy(ctx)
}

// look sees the agent as it is now.
func (i *Installer) look(ctx context.Context) (transaction.Sight, error) {
	agent, err := i.Machine.Agent(ctx)
	if err != nil {
		return transaction.Sight{}, err
	}
	defer agent.Close()
	return agent.Look(ctx)
}

// reloadUnits has systemd read its files again.
func (i *Installer) reloadUnits(ctx context.Context) error {
	agent, err := i.Machine.Agent(ctx)
	if err != nil {
		return err
	}
	defer agent.Close()
	return agent.DaemonReload(ctx)
}

// roomOfRun is what a change of version needs in /run, in bytes: the unit that it runs in, what
// is written down of this boot, and some for systemd. Nothing is changed with less.
const roomOfRun = 256 << 10

// checkRun refuses a change for which there is no room in /run. systemd is its folder there:
// without systemd nothing is needed.
func checkRun(systemd string) error {
	if !host.Exists(systemd) {
		return nil
	}
	free, err := space.At(systemd)
	if err != nil || free.RootBytes >= roomOfRun {
		return nil // who cannot tell goes on
	}
	return failure.Unchanged("%w", &space.Error{Path: systemd, Need: roomOfRun, Free: free.RootBytes}).To("free some space in /run, then run the command again").Refused()
}

// transact has a transaction made, in a unit of its own where systemd runs.
func (i *Installer) transact(ctx context.Context, r transaction.Request) error {
	if refusal := i.allowTransaction(r); refusal != nil {
		return refusal
	}
	if err := checkRun("/run/systemd/system"); err != nil {
		return err
	}
	end := i.tellBeginning(ctx, r)
	err := i.Machine.DoTransient(ctx, transaction.Order{Transaction: &r}, "Switch the Teleport agent to "+r.To.String())
	end()
	i.tell(ctx, nil)
	return err
}
