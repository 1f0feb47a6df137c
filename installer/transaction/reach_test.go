package transaction

import (
	"fmt"
	"slices"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/systemd"
)

// From a call on systemd does not answer any more, for longer than anybody waits: nothing
// is stopped, restored or closed, and nobody is blamed. The next run, which reaches it,
// goes on.
func TestASystemdThatIsLostInTheMiddle(t *testing.T) {
	some := sampled{every: 11}
	lost := fmt.Errorf("%w: the socket is gone", systemd.ErrBroken)
	for name, make := range map[string]func(t *testing.T) *model{
		"of an update":              func(t *testing.T) *model { return upgrade(t, twoHolds) },
		"of an update's recovery":   cutOff("", func(t *testing.T) *model { return upgrade(t, twoHolds) }, Update, "watch", 1, false).make,
		"of one that does not hold": func(t *testing.T) *model { return upgrade(t, two(diesLate)) },
	} {
		t.Run(name, func(t *testing.T) {
			do := func(m *model) (error, bool) {
				if host.Exists(m.Host.Paths.Journal()) {
					return m.tick()
				}
				return m.runs(func() error { return m.transact(t.Context(), m.request(Update)) })
			}
			dry := make(t)
			do(dry)
			v, _ := dry.program()
			for n := range len(dry.calls) {
				if some.skips() {
					continue
				}
				m := make(t)
				calls := 0
				m.before = func(string) error {
					if calls++; calls > n {
						return lost
					}
					return nil
				}
				err, _ := do(m)
				history := fmt.Sprintf("lost from call %d of %q on it ended with %v", n, dry.calls, err)
				if err == nil {
					t.Errorf("%s", history)
				}
				agent := m.main
				// Between stop and start nobody but systemd can start it.
				if agent == nil && !m.failed && !slices.Contains(dry.calls[:n], "stop") {
					t.Errorf("%s: no agent runs", history)
				}
				for range 2 {
					if err, _ := do(m); err == nil || m.main != agent {
						t.Errorf("%s: a run without systemd ends with %v, the agent is the same: %v", history, err, m.main == agent)
					}
				}
				m.dropHooks()
				do(m)
				if !m.committedOn(m.to) && v == "1.1.0" {
					m.release("1.1.0") // what was undone before the agent was told of it is fetched again
					do(m)
				}
				m.endsOn(v)
				if c, err := state.LoadConfig(m.Host.Paths.Config()); err != nil || c.Status.Failed != nil && v == "1.1.0" {
					t.Errorf("%s: %+v, %v", history, c.Status.Failed, err)
				}
			}
		})
	}
}
