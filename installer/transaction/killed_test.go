package transaction

import (
	"slices"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
)

// What an updater left that was killed between stop and start is seen to at once; what
// ended by itself, while the host shuts down, or where another run is at work, is not.
func TestWhatIsRunAfterAnUpdaterRecoversOneThatWasKilled(t *testing.T) {
	killed := []string{"signal", "core-dump", "timeout", "watchdog", "oom-kill"}
	stopped := cutOff("", func(t *testing.T) *model { return downgrade(t, holds) }, Downgrade, "stop", 1, true)
	for _, result := range append(killed, "success", "exit-code", "start-limit-hit", "resources", "") {
		m := stopped.make(t)
		err, _ := m.runs(func() error { return m.RecoverKilled(t.Context(), result) })
		if err != nil {
			t.Errorf("%s: it ends with %v", result, err)
		}
		if acts := m.main != nil; acts != slices.Contains(killed, result) || acts == host.Exists(m.Host.Paths.Journal()) {
			t.Errorf("%s: an agent runs: %v, the journal is open: %v", result, acts, host.Exists(m.Host.Paths.Journal()))
		}
		m.calls = nil
		m.RecoverKilled(t.Context(), "signal")
		m.RecoverKilled(t.Context(), "signal")
		m.endsOn("1.1.0")
	}
	for name, hinder := range map[string]func(m *model) (free func()){
		"the host shuts down": func(m *model) func() { m.down = true; return func() { m.down = false } },
		"another run is at work": func(m *model) func() {
			unlock, err := state.Lock(t.Context(), m.Host.Paths.UpdateLock(), 0)
			must(t, err)
			return unlock
		},
	} {
		m := stopped.make(t)
		free := hinder(m)
		before := m.files()
		if err := m.RecoverKilled(t.Context(), "signal"); err != nil {
			t.Errorf("%s: it ends with %v", name, err)
		}
		if m.files() != before || m.main != nil {
			t.Errorf("%s: something was done: %q", name, m.calls)
		}
		free()
	}
}
