package installer

import (
	"context"

	"teleport-update/installer/host"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/space"
)

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
	return failure.Unchanged("%w", &space.Error{Path: systemd, Need: roomOfRun,
		Free: free.RootBytes}).To("free some space in /run, then run the command again").Refused()
}

// transact has a transaction made, in a unit of its own where systemd runs.
func (i *Installer) transact(ctx context.Context, r transaction.Request) error {
	if refusal := i.ownerRules().allowTransaction(r); refusal != nil {
		return refusal
	}
	if err := checkRun("/run/systemd/system"); err != nil {
		return err
	}
	end := i.heartbeats().tellBeginning(ctx, r)
	err := i.Machine.DoTransient(ctx, transaction.Order{Transaction: &r}, "Switch the Teleport agent to "+r.To.String())
	end()
	i.heartbeats().tell(ctx, nil)
	return err
}
