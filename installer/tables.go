package installer

import (
	"context"
	"time"

	"teleport-update/installer/state"
	"teleport-update/installer/survey"
)

// tablesAgain is after which time the tables of a healthy agent's database are looked at again: each run would cost more than
// its question to find.
const tablesAgain = time.Hour

// recordTables records the tables of a healthy agent's database anew where the active version changed them after it was proven, as
// by a migration that it makes later. Else they count as another version's once the agent crashes, and going back is refused.
func (t *tick) recordTables(ctx context.Context, c state.Config, sight survey.Agent) {
	now := t.i.Machine.Timestamp()
	if c.Status.Unproven || c.Status.ActiveSchema == "" || now.Sub(t.memory.Tables).Abs() < tablesAgain {
		return
	}
	if damage, err := t.host().Damage(ctx); damage != nil || err != nil {
		return // it may be another version that is healthy
	}
	if t.i.Machine.Host.CheckDatabaseThere(int(sight.MainPID), false) != nil {
		return // of another database; status says so
	}
	tables, err := t.host().Schema(ctx)
	if err != nil || tables == "" {
		return
	}
	t.memory.Tables = now
	if tables == c.Status.ActiveSchema {
		return
	}
	err = changeStatus(ctx, t.i.Machine, func(now *state.Config) {
		if now.Active() == c.Active() && now.Status.ActiveSchema == c.Status.ActiveSchema {
			now.Status.ActiveSchema = tables
		}
	})
	if err != nil {
		t.i.Machine.Host.Log.Debug("the tables of the agent's database could not be recorded", "error", err)
		return
	}
	t.i.Machine.Host.Log.Info("the agent, which is healthy, has changed the tables of its database since its version was proven; they are "+
		"recorded", "version", c.Spec.ActiveVersion)
}
