package installer

import (
	"context"
	"teleport-update/internal/procfs"
)

// recoverApart closes an open transaction from a unit of its own where this
// process could not: one that runs in a shell which the agent serves is in the
// agent's control group. To undo a switch is to stop the agent, and then systemd
// would wait for us, who wait for systemd, kill us in the end, and nobody would
// start the agent before the timer's next run.
//
// The caller must not hold the update lock, and still has to look whether there
// is a journal: everywhere else this does nothing.
func (i *Installer) recoverApart(ctx context.Context) error {
	if !exists(i.Paths.Journal()) || !procfs.Host().SelfIn(AgentUnit) {
		return nil
	}
	conn, err := i.dial(ctx)
	if err != nil || conn == nil {
		return err
	}
	defer conn.Close()
	return i.runApart(ctx, conn, "Close the open switch of the Teleport agent", nil, "recover")
}
