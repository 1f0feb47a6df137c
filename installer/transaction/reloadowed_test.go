package transaction

import (
	"os"
	"slices"
	"testing"

	"teleport-update/installer/state"
)

// Systemd that could not be reached at a boot is made to read the old unit by the run after it:
// the journal keeps that it is owed until it was done, also where that run is killed.
func TestWhatSystemdWasNotToldOfAtABootItIsToldOnce(t *testing.T) {
	m := cutOff("", func(t *testing.T) *model { return upgrade(t, twoHolds) }, Update, "watch", 1, false).make(t)
	owed := func() bool {
		t.Helper()
		j, err := state.LoadJournal(m.Host.Paths.Journal())
		must(t, err)
		return j != nil && j.Agent.ReloadOwed
	}
	m.reachable = false
	if err, _ := m.reboot(); err != nil {
		t.Fatal(err)
	}
	if !owed() {
		t.Error("after the boot the journal does not say that a reload is owed")
	}
	m.dropHooks()
	m.calls = nil
	told := false
	m.before = func(call string) error {
		if told {
			panic(killed{}) // at the call after it
		}
		told = call == "daemon-reload"
		return nil
	}
	if _, dead := m.tick(); !dead || !slices.Contains(m.calls, "daemon-reload") {
		t.Fatalf("killed: %t; after %q", dead, m.calls)
	}
	if owed() {
		t.Error("after the reload the journal says that it is owed")
	}
	m.dropHooks()
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
}

// Nor does it know of a unit that somebody removed from a proven version, and that the recovery at
// boot wrote again: without the reload there would be nothing to start.
func TestAProvenUnitThatIsWrittenAtABootIsReadByTheNextRun(t *testing.T) {
	all := scenes()
	m := all[slices.IndexFunc(all, func(s scene) bool { return s.name == string(proven) })].make(t)
	must(t, os.Remove(m.Host.Paths.Unit()))
	m.reachable = false
	if err, _ := m.reboot(); err != nil {
		t.Fatal(err)
	}
	if m.unitFile() == "" || m.main != nil {
		t.Fatalf("after the boot the unit is %q, and %+v runs", m.unitFile(), m.main)
	}
	m.dropHooks()
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.1.0")
}
