package transaction

import (
	"context"
	"fmt"
	"strings"
)

// losesData reports whether the agent's data go with each stop: then there is nothing to be backed
// up or restored, and the agent begins with no data after each start as it does without a
// change.
func losesData(sight Sight, database string) bool {
	return sight.Ties.LosesOnStop(database)
}

// nameStarters adds to an error who has started the agent since it was stopped, if systemd did so
// for another unit.
func (t *transaction) nameStarters(ctx context.Context, err error) error {
	sight, lookErr := t.agent.Look(ctx)
	if lookErr != nil || sight.MainPID == 0 {
		return err
	}
	starters, lookErr := t.agent.ActiveOf(ctx, sight.Ties.Starters)
	switch {
	case lookErr != nil:
		return err
	case len(starters) > 0:
		return fmt.Errorf("%w; %s starts the agent again whenever it is down (Upholds=, or a .path unit): stop that first", err,
			strings.Join(starters, ", "))
	}
	return fmt.Errorf("%w; somebody starts the agent again whenever it is stopped: `journalctl --unit %s` shows when", err,
		t.m.Host.Paths.AgentUnit())
}
