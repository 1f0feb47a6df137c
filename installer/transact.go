package installer

import (
	"context"

	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
)

// foresee asks all that is known to be in the way of a change before a version is fetched for it.
func foresee(ctx context.Context, m *transaction.Machine, c state.Config, r transaction.Request) error {
	flight, err := m.Preflight(ctx)
	if err != nil {
		return err
	}
	defer flight.Close()
	return flight.Ask(ctx, c, r, transaction.Change)
}

// transact has a transaction made, in a unit of its own where systemd runs.
func (i *Installer) transact(ctx context.Context, r transaction.Request) error {
	if refusal := i.ownerRules().allowTransaction(r); refusal != nil {
		return refusal
	}
	if err := transaction.CheckRun(transaction.SystemdRun); err != nil {
		return err
	}
	end := i.heartbeats().tellBeginning(ctx, r)
	err := i.Machine.DoTransient(ctx, transaction.Order{Transaction: &r}, "Switch the Teleport agent to "+r.To.String())
	end()
	i.heartbeats().tell(ctx, nil)
	return err
}
