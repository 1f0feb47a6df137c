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
	now := i.surveyToChange()
	agent, err := now.Agent(ctx)
	now.Close()
	if err != nil {
		return err
	}
	p := agent.Pending
	if !p.Is() {
		i.Machine.Host.Log.Info("the agent runs with what its unit says; it is not restarted")
		return nil
	}
	i.Machine.Host.Log.Info("restarting the agent, as was asked for", "because", p.String())
	return i.Machine.RestartActive(ctx, c)
}
