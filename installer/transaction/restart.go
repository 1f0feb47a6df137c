package transaction

import (
	"context"
	"fmt"

	"teleport-update/health"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// RestartActive restarts the agent on the version that it is on, by a person's word, and
// watches it. Nothing is undone where it fails: there is no other version in it.
func (m *Machine) RestartActive(ctx context.Context, c state.Config) error {
	tree, ok, err := m.Active(c)
	if err != nil || !ok {
		return failure.Unchanged("the active version %s is not whole on disk", OrNone(c.Spec.ActiveVersion)).
			To("`teleport-update update --now` first")
	}
	agent, err := m.Agent(ctx)
	if err != nil {
		return err
	}
	defer agent.Close()
	sight, err := agent.Look(ctx)
	if err != nil {
		return err
	}
	if sight.Running() {
		err := m.checkStartsAgain(ctx, sight, "")
		if err == nil {
			err = host.CheckNeeds(ctx, sight.Unit, agent.Unit)
		}
		if err != nil {
			return failure.Unchanged("the agent, which runs, would not start again as it is: %w", err)
		}
	}
	if _, err := agent.Prove(ctx, health.Restart, watchOf(tree.ProgramsDir(), c.Spec.Health, sight)); err != nil {
		return fmt.Errorf("the agent was restarted and is not healthy: %w; version %s stays: look at `journalctl --unit %s`", err,
			c.Active().Short(), m.Host.Paths.AgentUnit())
	}
	m.Host.Log.Info("the agent was restarted and is healthy", "version", c.Active().Short())
	return nil
}
