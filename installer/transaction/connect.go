package transaction

import (
	"context"

	"teleport-update/internal/failure"
)

// Agent connects to the agent on a host that is up. Not to reach systemd is no
// reason to do without it: whoever cannot ask comes back later.
func (m *Machine) Agent(ctx context.Context) (Agent, error) {
	agent, err := m.Connect(ctx)
	if err != nil {
		return nil, failure.Unchanged("reach systemd: %w", err)
	}
	return noting{agent, m}, nil
}
