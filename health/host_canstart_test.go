//go:build hosts

package health

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// A process that serves is not stopped for a restart that is known to leave none.
func TestHostAnAgentThatWouldNotStartAgainServesOn(t *testing.T) {
	gone := errors.New("its user is gone")
	for name, tc := range map[string]struct {
		unit hostUnit
		one  string
		by   Means
	}{
		"it ignores the reload":    {hostUnit{}, "hup=ignore", Reload},
		"the reload fails":         {hostUnit{noHUP: true, service: "ExecReload=/bin/false"}, "", Reload},
		"there is no reload":       {hostUnit{noHUP: true}, "", Reload},
		"it is to be restarted":    {hostUnit{}, "", Restart},
		"it executes itself again": {hostUnit{}, "hup=exec", Reload},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newHostAgent(t, tc.unit, tc.one, "")
			before := a.start()
			a.linkTo("2")
			w := a.watch()
			w.ReloadLimit = hostWindow
			w.CanStart = func(context.Context) error { return gone }
			_, err := Prove(t.Context(), a.conn, tc.by, w)
			e, ok := errors.AsType[*UnhealthyError](err)
			if !ok || !e.OldServes || !errors.Is(err, gone) || !strings.Contains(err.Error(), "would not start again: its user is gone; the version before serves on") {
				t.Errorf("%v; want that the old one serves on, and why it is not restarted", err)
			}
			if now := a.state(); now.MainPID != before.MainPID || now.InvocationID != before.InvocationID {
				t.Errorf("the agent was restarted: process %d, was %d", now.MainPID, before.MainPID)
			}
		})
	}
	// One that does not run has nothing to lose.
	a := newHostAgent(t, hostUnit{}, "", "")
	a.linkTo("2")
	w := a.watch()
	w.CanStart = func(context.Context) error { return gone }
	if _, err := Prove(t.Context(), a.conn, Reload, w); err != nil {
		t.Errorf("an agent that does not run is not started: %v", err)
	}
}
