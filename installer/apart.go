package installer

import (
	"context"
	"os"
	"slices"
	"strings"
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
	if !exists(i.Paths.Journal()) || !endsWithAgent() {
		return nil
	}
	conn, err := i.dial(ctx)
	if err != nil || conn == nil {
		return err
	}
	defer conn.Close()
	return i.runApart(ctx, conn, "Close the open switch of the Teleport agent", nil, "recover")
}

// endsWithAgent reports whether systemd ends this process when it stops the agent.
func endsWithAgent() bool {
	groups, err := os.ReadFile("/proc/self/cgroup")
	return err == nil && groupsOf(string(groups), AgentUnit)
}

// groupsOf reports whether control groups, as /proc/PID/cgroup lists them
// (cgroups(7)), are a unit's or below it. In a container a unit of the host
// outside may come before those of the systemd inside.
func groupsOf(groups, unit string) bool {
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) < 3 {
			continue
		}
		for _, name := range slices.Backward(strings.Split(parts[2], "/")) {
			if name == unit {
				return true
			}
			if strings.HasSuffix(name, ".service") || strings.HasSuffix(name, ".scope") {
				break
			}
		}
	}
	return false
}
