package transaction

import (
	"context"

	"teleport-update/installer/state"
)

// noting is the agent with a note of each stop in /run: which run of it was ended, how its unit was enabled, and which units go
// down with it. Where somebody removes the journal and the backup is believed no more, nothing else tells a stop of a
// transaction's from an administrator's.
type noting struct {
	Agent
	m *Machine
}

// Stop notes the stop before it begins.
func (n noting) Stop(ctx context.Context, how manner) error {
	recordStop(ctx, n.m, n.Agent)
	return n.Agent.Stop(ctx, how)
}

// recordStop writes the note of a stop that is about to begin, for a stop goes on without whoever asked for it. A note that cannot be
// written stops nothing: the journal is what an undoing goes by.
func recordStop(ctx context.Context, m *Machine, agent Agent) {
	note := m.Host.Paths.Stopped()
	if sight, err := agent.Look(ctx); note != "" && err == nil && sight.started() && sight.InvocationID != "" {
		if units, err := goesDown(ctx, agent, sight.Ties); err == nil {
			addWentDown(ctx, m, agent, units)
		}
		_ = state.WriteForRoot(note, []byte(sight.InvocationID+" "+sight.UnitFileState+"\n"))
	}
}

// closeStop starts the units that went down with an agent that was stopped, and removes the note of the stop: the agent is as
// somebody wants it.
func closeStop(ctx context.Context, m *Machine, agent Agent) error {
	if err := startWentDown(ctx, m, agent); err != nil {
		return err
	}
	return forgetStop(m.Host.Paths.Stopped())
}
