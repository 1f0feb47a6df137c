package installer

import (
	"context"

	"teleport-update/installer/transaction"
)

// A glance is the agent as the end of a run sees it: whether it crashes, whether it has to be started once more and what
// status says of it are asked within a few milliseconds, and are about one moment. To connect to systemd and to read a
// unit is the most expensive part of a run with nothing to do.
type glance struct {
	transaction.Agent
	sight transaction.Sight
}

// Look returns what was seen.
func (g *glance) Look(context.Context) (transaction.Sight, error) { return g.sight, nil }

// Close leaves the connection open for whoever is next, see lookAway.
func (g *glance) Close() {}

// glance looks at the agent, the first time, and keeps what it saw until lookAway.
func (i *Installer) glance(ctx context.Context) (*glance, error) {
	if i.seen != nil {
		return i.seen, nil
	}
	agent, err := i.Machine.Agent(ctx)
	if err != nil {
		return nil, err
	}
	sight, err := agent.Look(ctx)
	if err != nil {
		agent.Close()
		return nil, err
	}
	i.seen = &glance{agent, sight}
	return i.seen, nil
}

// lookAway is for whoever has changed something about the agent, and for the end.
func (i *Installer) lookAway() {
	if i.seen != nil {
		i.seen.Agent.Close()
		i.seen = nil
	}
}
