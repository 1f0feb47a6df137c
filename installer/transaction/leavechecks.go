package transaction

import (
	"context"

	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

const leaveAgent = "`teleport-update uninstall --keep-agent` leaves the agent of today as plain files"

// seeLeaves looks at the agent, and refuses to leave one that runs and would not start again, as the one of before, or would on
// another database.
func seeLeaves(ctx context.Context, m *Machine, database string) (Sight, error) {
	agent, err := m.Agent(ctx)
	if err != nil {
		return Sight{}, err
	}
	defer agent.Close()
	sight, err := agent.Look(ctx)
	if err != nil || !sight.Running() {
		return sight, err
	}
	if err := sight.hidden(); err != nil {
		return sight, failure.Unchanged("the agent that was here before could not be watched: %w", err).To("run the command again then").Refused()
	}
	why := m.checkStartsAgain(ctx, agent, sight, database)
	if why == nil {
		why = checkNeeds(ctx, m, agent, sight)
	}
	if why != nil {
		err = failure.Unchanged("the agent runs, and would not start again after the uninstall: %w", why).
			To("correct that first, or %s", leaveAgent).Refused()
		return sight, err
	}
	if err := m.Host.CheckUnit(sight.Unit); err != nil { // it would be what is started, instead of the unit of before
		return sight, err
	}
	if why = restartable(ctx, m, agent, sight); why != nil {
		err = failure.Unchanged("the agent runs, and could not be restarted as the one that was here before: %w", why).
			To("correct that first, or %s", leaveAgent).Refused()
	}
	return sight, err
}

// restartable says what keeps systemd from a restart of an agent that runs: of the stop, which it would refuse, or of the start,
// which would wait for a job that is ahead while the agent is down.
func restartable(ctx context.Context, m *Machine, agent Agent, sight Sight) error {
	if err := sight.frozen(); err != nil {
		return err
	}
	if err := m.Host.CheckCanStop(sight.Unit); err != nil {
		return err
	}
	by, err := agent.Blockers(ctx, sight)
	if err == nil && len(by) > 0 {
		err = &systemd.BlockedError{Unit: m.Host.Paths.AgentUnit(), By: by}
	}
	return err
}
