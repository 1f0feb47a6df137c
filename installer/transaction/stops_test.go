package transaction

import "testing"

// A version that was reloaded to, and died, is stopped before systemd reads the old unit: it would
// wait for the dead process.
func TestAVersionThatDiedAfterAReloadIsStoppedBeforeSystemdReadsItsFiles(t *testing.T) {
	for _, schema := range []int{1, 2} {
		m := upgrade(t, behaviour{schema: schema, fate: diesLate})
		died := false
		m.at("stop", func() error { died = died || m.awaited; return nil })
		if err := m.do(Update); err == nil || !died {
			t.Errorf("it ends with %v; the process of the PID file was dead before the stop: %t", err, died)
		}
		m.endsOn("1.0.0")
	}
}

// Nor does a stop make systemd read them where a version failed, which may die meanwhile.
func TestAVersionThatFailedIsStoppedAtOnce(t *testing.T) {
	m := upgrade(t, two(neverReady))
	m.at("stop", func() error { m.drained(); return nil })
	if err := m.do(Update); err == nil {
		t.Error("a version that is never ready is committed")
	}
	m.endsOn("1.0.0")
}

// An agent that was reloaded to, and whose parent has ended, is given the time to end when a
// person goes back.
func TestAnAgentThatWasReloadedIsGivenItsTimeToEnd(t *testing.T) {
	m := upgrade(t, twoHolds)
	must(t, m.do(Update))
	m.drained()
	m.from, m.to = m.to, m.from
	m.after = func(call string) error {
		if call == "stop" && m.cutShort {
			t.Error("systemd killed it at once")
		}
		return nil
	}
	if err := m.do(Rollback); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
}
