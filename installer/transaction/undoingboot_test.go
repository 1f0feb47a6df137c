package transaction

import (
	"errors"
	"os"
	"strings"
	"testing"

	"teleport-update/installer/state"
)

// Whether the agent ran is found out once after a boot. Whoever is killed later, with
// the agent stopped to be started anew, has the next run start it.
func TestAnUndoingThatIsKilledAfterABootHasTheAgentStarted(t *testing.T) {
	m := cutOff("", func(t *testing.T) *model { return upgrade(t, twoHolds) }, Update, "watch", 1, false).make(t)
	if err, _ := m.reboot(); err != nil {
		t.Fatal(err)
	}
	m.cut("watch", 1, false)
	if _, dead := m.tick(); !dead {
		t.Fatalf("the watch of the old version was not killed: %q", m.calls)
	}
	m.dropHooks()
	m.ends()
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
}

// The journal cannot be written at the moment at which the boot is noted: the transaction is undone
// all the same, or, where even that is not written down, an agent runs in the end.
func TestADiskThatIsFullAfterABootKeepsNoAgentDown(t *testing.T) {
	for name, tc := range map[string]struct {
		times  int
		begun  bool
		undone bool
	}{
		"once":                     {times: 1, undone: true},
		"for good":                 {times: 1000},
		"for good, and only begun": {times: 1000, begun: true},
	} {
		t.Run(name, func(t *testing.T) {
			at := "watch"
			if tc.begun {
				at = "daemon-reload"
			}
			m := cutOff("", func(t *testing.T) *model { return upgrade(t, twoHolds) }, Update, at, 1, false).make(t)
			m.ends()
			m.boots++ // systemd started no agent, for its mount is late, and no recovery ran
			m.started = false
			j, err := load(m.Host.Paths.Journal())
			must(t, err)
			save, failed := j.save, 0
			j.save = func(j *state.Journal) error {
				if failed++; failed <= tc.times {
					return errors.New("no room")
				}
				return save(j)
			}
			tr := &transaction{m: m.Machine, agent: m, j: j}
			err, _ = m.runs(func() error { return tr.undo(t.Context()) })
			tr.closeDatabase()
			if tc.undone != (err == nil) && !tc.begun {
				t.Errorf("it ends with %v", err)
			}
			if m.main == nil {
				t.Errorf("no agent runs; it ended with %v, after %q", err, m.calls)
			}
			m.settles(outcome{}, err, true)
		})
	}
}

// An agent that runs is not stopped at each run for an undoing that cannot be noted, nor is its
// database restored again over what it wrote.
func TestADiskThatIsFullAfterABootLeavesAnAgentThatRunsAlone(t *testing.T) {
	for _, phase := range []state.Phase{switched, rollingBack} {
		m := cutOff("", func(t *testing.T) *model { return upgrade(t, twoHolds) }, Update, "watch", 1, false).make(t)
		m.ends()
		m.edit(func(j *state.Journal) { j.Phase = phase })
		m.boots++ // no recovery ran
		m.launch()
		j, err := load(m.Host.Paths.Journal())
		must(t, err)
		j.save = func(*state.Journal) error { return errors.New("no room") }
		tr := &transaction{m: m.Machine, agent: m, j: j}
		runs := m.main
		err, _ = m.runs(func() error { return tr.undo(t.Context()) })
		tr.closeDatabase()
		if err == nil || m.main != runs {
			t.Errorf("%s: it ends with %v, after %q", phase, err, m.calls)
		}
		m.settles(outcome{}, err, true)
	}
}

// What a person had started by hand does not come back at boot, and is not for us
// to start.
func TestAnAgentThatIsNotStartedAtBootStaysDown(t *testing.T) {
	m := cutOff("", func(t *testing.T) *model { return upgrade(t, twoHolds) }, Update, "watch", 1, false).make(t)
	m.enabled = false
	if err, _ := m.reboot(); err != nil {
		t.Fatal(err)
	}
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	if m.main != nil {
		t.Error("the agent was started")
	}
	m.startUnit()
	m.endsOn("1.0.0")
}

// What is started at boot, and waits for a mount that is late or failed, is still to run.
func TestAnAgentThatIsStillToBeStartedAtBootRunsInTheEnd(t *testing.T) {
	m := cutOff("", func(t *testing.T) *model { return upgrade(t, twoHolds) }, Update, "watch", 1, false).make(t)
	m.ends()
	m.boots++
	m.started = false
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
}

// Somebody put something in the place of the unit, so that systemd knew none at the boot, and nobody was
// there to put it back: that is no wish that the agent stays down.
func TestAnAgentWhoseUnitWasNotThereAtBootRunsInTheEnd(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		m := upgrade(t, twoHolds)
		m.enabled = enabled
		m.meets(callOf(t, "watch"), outcome{before: func(*model) error { panic(killed{}) }})
		if _, dead := m.runs(func() error { return m.transact(t.Context(), m.request(Update)) }); !dead {
			t.Fatal("it was not killed")
		}
		m.dropHooks()
		m.ends()
		must(t, os.Remove(m.Host.Paths.Unit()))
		m.boots++
		m.started, m.unit = false, ""
		if err, _ := m.tick(); err != nil {
			t.Error(err)
		}
		if (m.main != nil) != enabled {
			t.Errorf("enabled before: %v; an agent runs: %v, after %q", enabled, m.main != nil, m.calls)
		}
	}
}

// Somebody masked the agent, which is no wish that it stays down for good: nobody can tell then
// whether it is enabled.
func TestAnAgentThatWasMaskedAtBootRunsOnceItIsNot(t *testing.T) {
	m := cutOff("", func(t *testing.T) *model { return upgrade(t, twoHolds) }, Update, "watch", 1, false).make(t)
	m.masked = true
	if err, _ := m.reboot(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err, _ := m.tick(); err == nil {
			t.Error("a run with the agent masked ends well")
		}
	}
	m.masked = false
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
}

// Who is masked cannot be started again, and is not stopped: the new version, of which
// nobody knows whether it is healthy, serves on, and is watched once it can be.
func TestAnAgentThatIsMaskedIsNotStopped(t *testing.T) {
	for name, tc := range map[string]struct {
		fate fate
		ends string
	}{"holds": {holds, "1.1.0"}, "dies later": {diesLate, "1.0.0"}} {
		t.Run(name, func(t *testing.T) {
			m := cutOff("", func(t *testing.T) *model { return upgrade(t, two(tc.fate)) }, Update, "watch", 1, false).make(t)
			m.masked = true
			before := m.main.pid
			for range 3 {
				if err, _ := m.tick(); err == nil || !strings.Contains(err.Error(), "systemctl unmask") {
					t.Errorf("a run with the agent masked ends with %v", err)
				}
				if m.main == nil || m.main.pid != before {
					t.Fatal("the agent was stopped")
				}
			}
			m.masked = false
			if err, _ := m.tick(); err != nil {
				t.Error(err)
			}
			m.endsOn(tc.ends)
		})
	}
}

// Nor is an old process that serves on, or a new version whose unit somebody masks once
// the undoing has begun.
func TestAnAgentThatIsMaskedIsNotStoppedByAnUndoing(t *testing.T) {
	for name, call := range map[string]string{"the old process": "prove", "the new version": "watch"} {
		t.Run(name, func(t *testing.T) {
			m := cutOff("", func(t *testing.T) *model { return upgrade(t, two(neverReady)) }, Update, call, 1, false).make(t)
			m.edit(func(j *state.Journal) {
				j.Phase, j.Verdict = rollingBack, state.Verdict{Reason: "it was told to stop", Against: state.AgainstInterruption}
			})
			before, looks := m.main.pid, 0
			m.at("look", func() error {
				if looks++; looks == 2 || call == "prove" {
					m.masked = true
				}
				return nil
			})
			for range 2 {
				if err, _ := m.tick(); call == "watch" {
					m.needsPerson(err, "systemctl unmask")
				} else if err != nil {
					t.Error(err) // it is undone without a stop
				}
				if m.main == nil || m.main.pid != before {
					t.Fatal("the agent was stopped")
				}
			}
			if err := m.sound(); err != nil {
				t.Error(err)
			}
			m.dropHooks()
			m.masked = false
			if err, _ := m.tick(); err != nil {
				t.Error(err)
			}
			m.endsOn("1.0.0")
		})
	}
}

// A database that cannot go back at a boot is told of from then on: between the boot and the first
// run of the timer, status has nothing but the journal to say it from.
func TestWhatIsInTheWayAtABootStandsInTheJournal(t *testing.T) {
	m := cutOff("", func(t *testing.T) *model { return upgrade(t, two(neverReady)) }, Update, "watch", 1, false).make(t)
	saved := m.Host.Store.Dir + "/1.0.0/backup/sqlite.db"
	must(t, os.Rename(saved, saved+".away"))
	must(t, os.RemoveAll(m.Host.Paths.Rollback()))
	if err, _ := m.reboot(); err == nil || !strings.Contains(err.Error(), "the database cannot go back") {
		t.Errorf("the recovery at boot ends with %v", err)
	}
	m.edit(func(j *state.Journal) {
		if !strings.Contains(j.Database.InTheWay, "cannot go back") {
			t.Errorf("for status the journal says %q", j.Database.InTheWay)
		}
	})
	must(t, os.Rename(saved+".away", saved))
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
}
