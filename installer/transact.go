package installer

import (
	"context"

	"teleport-update/installer/decision"
	"teleport-update/installer/host"
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
	c, err := i.survey().Config()
	if err != nil {
		return err
	}
	if refusal := i.ownerRules().allowTransaction(c, r); refusal != nil {
		return refusal
	}
	if err := transaction.CheckRun(transaction.SystemdRun); err != nil {
		return err
	}
	if servers, err := host.ConfigurationOn(i.Machine.Host).Servers(); err == nil && servers != "" {
		i.Machine.Host.Log.Warn(decision.ServersUnsaved, "shown_by", servers)
	}
	end := i.heartbeats().reportBeginning(ctx, c, r)
	err = i.Machine.DoTransient(ctx, transaction.Order{Transaction: &r}, "Switch the Teleport agent to "+r.To.String())
	end()
	if c, err := i.survey().Config(); err == nil { // else others have said so
		i.heartbeats().report(ctx, c, nil)
	}
	return err
}
