package installer

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

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
	if (u.PIDFile != "" || u.Type != "simple" && u.Type != "exec") && parentOf(u.MainPID) == 1 {
		if err := conn.DaemonReload(ctx); err != nil {
			return fmt.Errorf("make systemd look at the agent: %w", err)
		}
	}
	if err := conn.Stop(ctx, AgentUnit); err != nil {
		return fmt.Errorf("stop the agent: %w", err)
	}
	return nil
}

// parentOf returns the parent of a process that is alive, else 0.
func parentOf(pid uint32) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name is in parentheses and may hold anything, so count from its end.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}
