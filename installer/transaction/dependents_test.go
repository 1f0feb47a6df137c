package transaction

import (
	"context"
	"slices"
	"testing"

	"teleport-update/systemd"
)

// unitsOf is a systemd that knows some units.
type unitsOf map[string]systemd.Unit

func (m unitsOf) Unit(_ context.Context, name string) (systemd.Unit, error) {
	u := m[name]
	u.Name = name
	return u, nil
}

// What a stop of the agent takes down is found however far it is passed on, each unit once; what is down
// stays down, and what would wait for this transaction is not started by it.
func TestWhatGoesDownWithTheAgentIsFoundHoweverFar(t *testing.T) {
	unit := func(state string, dependents ...string) systemd.Unit {
		return systemd.Unit{ActiveState: state, Ties: systemd.Ties{Dependents: dependents}}
	}
	run := unit("activating")
	run.Type = "oneshot"
	all := unitsOf{
		"forwarder.service": unit("active", "app.service", "app.socket"), "app.service": unit("reloading", "forwarder.service", "far.timer"),
		"app.socket": unit("active"), "far.timer": unit("active"), "ends.service": unit("inactive", "behind.service"), "behind.service": unit("active"),
		"starts.service": unit("activating"), "failed.service": unit("failed"), "stops.service": unit("deactivating"), "run.service": run,
		"teleport-update.service": unit("active"), "teleport-update.timer": unit("active"),
		"teleport-update-switch-x.service": unit("active"), "teleport-updater-metrics.service": unit("active"),
	}
	direct := []string{"forwarder.service", "ends.service", "starts.service", "failed.service", "stops.service", "run.service",
		"teleport-update.service", "teleport-update.timer", "gone.service", "teleport-update-switch-x.service", "teleport-updater-metrics.service"}
	want := []string{"forwarder.service", "starts.service", "teleport-update.timer", "teleport-updater-metrics.service", "app.service", "app.socket", "behind.service", "far.timer"}
	got, err := goesDown(t.Context(), all, systemd.Ties{Dependents: direct})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}
