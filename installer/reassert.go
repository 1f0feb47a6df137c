package installer

import (
	"context"
	"fmt"

	"teleport-update/systemd"
	"teleport-update/versions"
)

// enterProven is the point from which there is only forward. How the agent is
// enabled is noted with it: what is missing at the commit was taken away in
// between, not by a person who disabled the agent during the watch.
func (i *Installer) enterProven(j *journal) error {
	links, err := i.units().EnabledBy(AgentUnit)
	if err != nil {
		return fmt.Errorf("see how the agent is enabled: %w", err)
	}
	j.Agent.EnabledBy = links
	return j.enter(i.Paths.Journal(), proven)
}

// reassert puts links, unit and enablement of a proven version back where
// somebody took them away: the removal of a package takes its paths although
// they are our links by now. It changes files only; at boot that goes for the
// updater's timer too.
func (i *Installer) reassert(ctx context.Context, j *journal, conn *systemd.Conn, tree versions.Tree, boot bool) error {
	problems, err := i.linkProblems(tree)
	if err != nil {
		return err
	}
	disabled := i.units().Dangling(j.Agent.EnabledBy)
	for _, link := range disabled {
		problems = append(problems, link+" is missing")
	}
	own := i.units().Problems()
	if len(problems)+len(own) == 0 {
		return nil
	}
	for _, p := range append(problems, own...) {
		i.Log.Warn("putting back what was taken away since the version was proven", "problem", p)
	}
	if len(own) > 0 {
		starter := conn
		if boot {
			starter = nil
		}
		if _, err := i.installUnits(ctx, starter); err != nil {
			return err
		}
	}
	if len(problems) == 0 {
		return nil
	}
	// First, so that a kill right after the repair does not hide that the agent
	// may be down.
	j.Reasserted = true
	if err := j.save(i.Paths.Journal()); err != nil {
		return err
	}
	if err := i.relink(tree); err != nil {
		return err
	}
	if err := i.units().Reenable(disabled, i.Paths.Unit()); err != nil {
		return fmt.Errorf("enable the agent again: %w", err)
	}
	if conn == nil {
		return nil
	}
	return conn.DaemonReload(ctx)
}

// startReasserted starts an agent that was stopped by whoever took its files
// away, or that a boot did not find them for.
func (i *Installer) startReasserted(ctx context.Context, j *journal, conn *systemd.Conn) error {
	if conn == nil || !j.Reasserted || !j.Agent.State.manageable() {
		return nil
	}
	u, err := conn.Unit(ctx, AgentUnit)
	if err != nil || stateOf(u) == agentRunning {
		return err
	}
	i.Log.Warn("starting the agent, which is down since its files were taken away", "version", j.To.String())
	if err := conn.Start(ctx, AgentUnit); err != nil {
		return fmt.Errorf("start version %s: %w", j.To, err)
	}
	return nil
}
