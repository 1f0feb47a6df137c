package transaction

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"teleport-update/installer/state"
)

// Units that require the agent go down when it is stopped, and a start brings back the agent alone.

// startDependents starts the units that were active when the transaction began and went down with
// the agent. What does not start is said, and keeps nothing from going on. After a boot systemd
// has started what is enabled.
func (t *transaction) startDependents(ctx context.Context) {
	units := t.j.Agent.Dependents
	if len(units) == 0 || t.j.BootID != t.m.BootID() {
		return
	}
	active, err := t.agent.ActiveOf(ctx, units)
	if err != nil {
		t.m.warn(err, "units that require the agent may be down", "units", strings.Join(units, ", "))
		return
	}
	for _, unit := range units {
		if slices.Contains(active, unit) {
			continue
		}
		t.m.Host.Log.Info("starting a unit that went down with the agent", "unit", unit)
		t.m.warn(t.agent.StartOther(ctx, unit), "a unit that went down with the agent did not start again", "unit", unit)
	}
}

// tellDown adds to the last outcome which dependents are down.
func (t *transaction) tellDown(ctx context.Context, last *state.LastUpdate) {
	units := t.j.Agent.Dependents
	active, err := t.agent.ActiveOf(ctx, units)
	if last == nil || err != nil || t.j.BootID != t.m.BootID() {
		return
	}
	down := slices.DeleteFunc(slices.Clone(units), func(unit string) bool { return slices.Contains(active, unit) })
	if len(down) > 0 {
		last.Error = strings.TrimPrefix(fmt.Sprintf("%s; %s went down with the agent and did not start again", last.Error,
			strings.Join(down, ", ")), "; ")
	}
}
