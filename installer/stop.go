package installer

import (
	"context"
	"fmt"

	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

// stopAgent stops the agent in good order.
//
// An agent that was reloaded since it was started runs as a process that systemd
// learned of from the PID file. If its parent, the process before, still lived at
// that moment, systemd takes it for no child of its own, for good, and does not
// wait for such a process to obey: it kills it at once (seen on systemd 252).
// Reading its files anew makes systemd look again. It must not be made to while
// the parent lives, or when the process is dead, which it would then wait for in
// vain.
func stopAgent(ctx context.Context, conn *systemd.Conn) error {
	u, err := conn.Unit(ctx, AgentUnit)
	if err != nil {
		return err
	}
	main := procfs.Host().Process(int(u.MainPID))
	if (u.PIDFile != "" || u.Type != "simple" && u.Type != "exec") && main != nil && main.Parent == 1 {
		if err := conn.DaemonReload(ctx); err != nil {
			return fmt.Errorf("make systemd look at the agent: %w", err)
		}
	}
	if err := conn.Stop(ctx, AgentUnit); err != nil {
		return fmt.Errorf("stop the agent: %w", err)
	}
	return nil
}
