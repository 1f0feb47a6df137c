package transaction

import (
	"path/filepath"
	"slices"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
)

// The timer of another updater is stopped while its files are there, ours is started once
// they are gone: no run of either meets the other.
func TestOurTimerIsOnOnceTheOtherUpdaterIsGone(t *testing.T) {
	all := scenes()
	m := all[slices.IndexFunc(all, func(s scene) bool { return s.name == string(replacing) })].make(t)
	theirs, ours := filepath.Join(m.Host.Paths.UnitDir, "timers.target.wants", "theirs.timer"), m.Host.OwnUnits().Timer()
	var told []string
	m.timers = func(verb, name string) {
		if host.Exists(theirs) {
			name += ", theirs is there"
		}
		told = append(told, verb+" "+name)
	}
	if err, _ := m.tick(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"stop theirs.timer, theirs is there", "start " + ours}; !slices.Equal(told, want) {
		t.Errorf("systemd was told %q; want %q", told, want)
	}
	m.endsOn("1.1.0")
}

// The files are in the journal before the first of them is removed: the run that goes on knows all of them.
func TestAReplacementIsInTheJournalBeforeItsFirstChange(t *testing.T) {
	all := scenes()
	m := all[slices.IndexFunc(all, func(s scene) bool { return s.name == string(proven) })].make(t)
	m.edit(func(j *state.Journal) { j.Replaces = true })
	m.at("daemon-reload", func() error { // the first call after it
		j, err := load(m.Host.Paths.Journal())
		must(t, err)
		if j.Phase != replacing {
			t.Errorf("the journal says %q", j.Phase)
		}
		return nil
	})
	if err, _ := m.tick(); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(m.calls, "daemon-reload") {
		t.Error("nothing was replaced")
	}
	m.endsOn("1.1.0")
}

// Where somebody has removed all of the other updater's files there is nothing to note, and the
// run that was killed after that is begun again like any other.
func TestAReplacementOfNothingThatIsKilledGoesOn(t *testing.T) {
	all := scenes()
	m := all[slices.IndexFunc(all, func(s scene) bool { return s.name == string(proven) })].make(t)
	m.edit(func(j *state.Journal) { j.Replaces = true })
	m.cut("daemon-reload", 1, false)
	if _, dead := m.tick(); !dead {
		t.Fatalf("it was not killed: %q", m.calls)
	}
	m.edit(func(j *state.Journal) {
		if j.Phase != replacing || len(j.Replaced) > 0 {
			t.Errorf("the journal says %q, %v", j.Phase, j.Replaced)
		}
	})
	m.dropHooks()
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.1.0")
}
