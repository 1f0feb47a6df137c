package installer

import "context"

// restartAgent restarts an agent that differs from its unit, and watches it. The caller
// holds no lock.
func (i *Installer) restartAgent(ctx context.Context) error {
	c, unlock, err := i.Machine.Open(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	sight, err := i.look(ctx)
	if err != nil {
		return err
	}
	p := i.survey().AgentOf(sight).Pending
	if !p.Is() {
		i.Machine.Host.Log.Info("the agent runs with what its unit says; it is not restarted")
		return nil
	}
	i.Machine.Host.Log.Info("restarting the agent, as was asked for", "because", p.String())
	return i.Machine.RestartActive(ctx, c)
}
