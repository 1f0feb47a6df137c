package installer

import (
	"context"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// Runs that say nothing about the host leave their trace, too: status takes a run without one for a run that did nothing.
func TestARunThatDoesNotBeginLeavesATrace(t *testing.T) {
	for how, run := range map[string]func(*testing.T, *world){
		"another updater is at work": func(t *testing.T, w *world) {
			unlock, err := state.Lock(t.Context(), w.Machine.Host.Paths.UpdateLock(), 0)
			must(t, err)
			defer unlock()
			if err := w.Update(t.Context(), UpdateOptions{}); !failure.Is[*state.BusyError](err) {
				t.Errorf("the run ends with %v", err)
			}
		},
		"somebody ends it": func(t *testing.T, w *world) {
			ctx, end := context.WithCancel(t.Context())
			end()
			if err := w.Update(ctx, UpdateOptions{}); err == nil {
				t.Error("the run ends well")
			}
		},
		"updates are off": func(t *testing.T, w *world) {
			c, err := w.Machine.Host.Paths.LoadConfig()
			must(t, err)
			c.Spec.Enabled = false
			must(t, c.Save(w.Machine.Host.Paths.Config()))
			must(t, w.Update(t.Context(), UpdateOptions{}))
		},
	} {
		w := newWorld(t)
		run(t, w)
		if m := w.ticks(); !m.LastTrace().Equal(w.clock) {
			t.Errorf("%s: the last trace is of %v; want %v", how, m.LastTrace(), w.clock)
		}
	}
}
