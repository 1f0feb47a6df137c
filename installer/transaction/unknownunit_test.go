package transaction

import (
	"os"
	"testing"

	"teleport-update/installer/host"
)

// The data of a host in the middle of a transaction are put under a new system: there are no links
// and no unit, and systemd has never heard of the agent. The next run closes the transaction.
func TestATransactionIsClosedWhereSystemdKnowsNoUnit(t *testing.T) {
	for _, unitWas := range []bool{true, false} {
		m := newModel(t, "1.0.0", "1.1.0", map[string]behaviour{"1.0.0": one, "1.1.0": twoHolds})
		m.meets(callOf(t, "watch"), outcome{before: func(*model) error { panic(killed{}) }})
		if _, dead := m.runs(func() error { return m.transact(t.Context(), m.request(Update)) }); !dead {
			t.Fatal("it was not killed")
		}
		m.dropHooks()
		m.ends()
		must(t, os.RemoveAll(m.Host.Paths.LinkDir))
		must(t, os.RemoveAll(m.Host.Paths.UnitDir))
		must(t, os.MkdirAll(m.Host.Paths.LinkDir, 0o755))
		must(t, os.MkdirAll(m.Host.Paths.UnitDir, 0o755))
		m.failed, m.started, m.unit = false, false, ""
		m.boots++
		if !unitWas {
			r, err := load(m.Host.Paths.Journal())
			must(t, err)
			r.Unit.Regular, r.Unit.Content = false, nil
			must(t, r.flush())
		}
		m.wrong = nil
		for range 2 {
			m.tick()
		}
		if host.Exists(m.Host.Paths.Journal()) {
			t.Errorf("the unit was there before: %v; the transaction is open: %q", unitWas, m.calls)
		}
		if len(m.wrong) > 0 || m.seen.schema != 1 {
			t.Errorf("the unit was there before: %v; %q, schema %d", unitWas, m.wrong, m.seen.schema)
		}
	}
}

// callOf is the number of a call in an update that is undisturbed.
func callOf(t *testing.T, call string) int {
	t.Helper()
	m := newModel(t, "1.0.0", "1.1.0", map[string]behaviour{"1.0.0": one, "1.1.0": twoHolds})
	m.runs(func() error { return m.transact(t.Context(), m.request(Update)) })
	for n, c := range m.calls {
		if c == call {
			return n
		}
	}
	t.Fatalf("%q has no %s", m.calls, call)
	return 0
}

// A person, or a full disk, took the unit's file away under the agent: an undoing brings back a version that starts.
func TestAnUndoingBringsBackAUnitThatWasLost(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"gone":    os.Remove,
		"emptied": func(path string) error { return os.Truncate(path, 0) },
	} {
		m := newModel(t, "1.0.0", "1.1.0", map[string]behaviour{"1.0.0": one, "1.1.0": {schema: 2, fate: dies}})
		was, err := os.ReadFile(m.Host.Paths.Unit())
		must(t, err)
		must(t, lose(m.Host.Paths.Unit()))
		m.runs(func() error { return m.transact(t.Context(), m.request(Update)) })
		if is, err := os.ReadFile(m.Host.Paths.Unit()); err != nil || string(is) != string(was) {
			t.Errorf("%s: the unit is %q, %v; want %q", name, is, err, was)
		}
	}
}
