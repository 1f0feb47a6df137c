package transaction

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/systemd"
)

// dependentOn gives the host a unit that goes down with the agent, and another that somebody stopped before.
func (m *model) dependentOn() *model {
	m.others = map[string]bool{"app.service": true, "idle.service": false}
	m.ties = systemd.Ties{Dependents: []string{"app.service", "idle.service"}}
	return m
}

// broken is what becomes of the journal of a change that was killed.
var broken = map[string]func(m *model){
	"removed, the backup is believed": func(m *model) {
		if err := os.Remove(m.Host.Paths.Journal()); err != nil && !errors.Is(err, os.ErrNotExist) {
			m.t.Fatal(err)
		}
	},
	"removed, the backup is not believed": (*model).loses,
	"unreadable, the backup is believed":  (*model).breaksJournal,
	"unreadable, the backup is not believed": func(m *model) {
		is := host.Exists(m.Host.Paths.Journal())
		m.loses()
		if is {
			writeFile(m.t, m.Host.Paths.Journal(), "{")
		}
	},
}

func (m *model) breaksJournal() {
	if host.Exists(m.Host.Paths.Journal()) {
		writeFile(m.t, m.Host.Paths.Journal(), "{")
	}
}

// A change is killed at each call, and its journal is lost: what went down with the agent is up again as soon as the agent is,
// and what somebody had stopped before stays down.
func TestUnitsThatALostTransactionTookDownAreStarted(t *testing.T) {
	some := sampled{every: 11}
	for name, scene := range map[string]struct {
		make func(*testing.T) *model
		kind Kind
		dies bool // it takes the units down by itself
	}{
		"a downgrade that is proven":       {func(t *testing.T) *model { return downgrade(t, holds) }, Downgrade, false},
		"a downgrade that dies":            {func(t *testing.T) *model { return downgrade(t, dies) }, Downgrade, false},
		"an update that is never ready":    {func(t *testing.T) *model { return upgrade(t, two(neverReady)) }, Update, false},
		"an update that dies in its watch": {func(t *testing.T) *model { return upgrade(t, two(diesLate)) }, Update, true},
	} {
		dry := scene.make(t).dependentOn()
		dry.runs(func() error { return dry.transact(t.Context(), dry.request(scene.kind)) })
		for how, breaks := range broken {
			for n, call := range dry.calls {
				if some.skips() {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%d %s", name, how, n, call), func(t *testing.T) {
					t.Parallel()
					m := scene.make(t).dependentOn()
					m.killedAt(t, scene.kind, n)
					if scene.dies && m.failed {
						m.others["app.service"] = false // BindsTo=
					}
					breaks(m)
					for run := range 2 {
						if err, _ := m.tick(); m.main != nil && !m.others["app.service"] {
							t.Errorf("after run %d, which ends with %v, app.service is down", run, err)
						}
					}
					if m.others["idle.service"] {
						t.Error("idle.service, which somebody had stopped, was started")
					}
					if paths := m.Host.Paths; m.main != nil && host.Absent(paths.Journal()) && !nothingStopped(paths) {
						t.Error("a note of the change stays")
					}
				})
			}
		}
	}
}

// The second stop of a transaction finds down what the first one took down.
func TestASecondStopKeepsTheNoteOfTheFirst(t *testing.T) {
	for _, since := range []bool{false, true} {
		m := upgrade(t, twoHolds).dependentOn()
		for range 3 {
			must(t, noting{m, m.Machine}.Stop(t.Context(), inOrder))
			must(t, m.startUnit())
			m.others["idle.service"] = since // by somebody
		}
		must(t, noting{m, m.Machine}.Stop(t.Context(), inOrder))
		if err, _ := m.tick(); err != nil || m.main == nil || !m.others["app.service"] || m.others["idle.service"] != since {
			t.Errorf("since %v: %v, and the units are %v", since, err, m.others)
		}
	}
}

// The note of the stop is what an older program reads, to its end. The note that an older program wrote tells of no units.
func TestAnOlderProgramReadsTheNoteOfAStop(t *testing.T) {
	m := upgrade(t, twoHolds).dependentOn()
	must(t, noting{m, m.Machine}.Stop(t.Context(), inOrder))
	text, err := os.ReadFile(m.Host.Paths.Stopped())
	if want := fmt.Sprintln(m.invocation, "enabled"); err != nil || string(text) != want {
		t.Errorf("the note is %q, %v, want %q", text, err, want)
	}
	must(t, os.Remove(m.Host.Paths.WentDown()))
	if err, _ := m.tick(); err != nil || m.main == nil || m.others["app.service"] {
		t.Errorf("%v, and the units are %v", err, m.others)
	}
}

// An older program starts the agent alone, and removes the note of the stop.
func TestUnitsThatAnOlderProgramLeftDownAreStarted(t *testing.T) {
	m := upgrade(t, twoHolds).dependentOn()
	must(t, noting{m, m.Machine}.Stop(t.Context(), inOrder))
	must(t, m.startUnit())
	must(t, os.Remove(m.Host.Paths.Stopped()))
	if err, _ := m.runs(func() error { return m.Recover(t.Context(), false) }); err != nil || !m.others["app.service"] {
		t.Errorf("%v, and the units are %v", err, m.others)
	}
}

// What the next run makes of the note of units.
func TestTheNoteOfUnitsThatWentDown(t *testing.T) {
	for name, tc := range map[string]struct {
		act      func(m *model)
		up, kept bool
	}{
		"the agent runs":                                     {func(m *model) { must(m.t, m.startUnit()) }, true, false},
		"somebody stopped the agent":                         {func(m *model) { must(m.t, m.startUnit()); m.stopUnit() }, false, false},
		"the agent is disabled":                              {func(m *model) { m.enabled = false }, false, true},
		"the agent fails":                                    {func(m *model) { m.failed, m.main = true, nil; m.invocation++ }, false, true},
		"a soft reboot":                                      {func(m *model) { m.boots++; must(m.t, m.startUnit()) }, false, false},
		"somebody else wrote the note":                       {func(m *model) { must(m.t, os.Chmod(m.Host.Paths.WentDown(), 0o666)) }, false, true},
		"systemd does not tell of units":                     {func(m *model) { m.noUnits = true }, false, true},
		"systemd does not tell of units, and the agent runs": {func(m *model) { m.noUnits = true; must(m.t, m.startUnit()) }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := upgrade(t, twoHolds).dependentOn()
			must(t, noting{m, m.Machine}.Stop(t.Context(), inOrder))
			tc.act(m)
			err, _ := m.tick()
			if kept := !nothingStopped(m.Host.Paths); m.others["app.service"] != tc.up || kept != tc.kept {
				t.Errorf("%v, and the units are %v, the note is kept: %v", err, m.others, kept)
			}
			if m.noUnits && (err == nil || !strings.Contains(err.Error(), "start the units that went down with the agent")) {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}

// A transaction that cannot ask systemd about its units leaves their note to the next run.
func TestATransactionLeavesTheNoteOfUnitsThatItCannotAskAbout(t *testing.T) {
	m := downgrade(t, holds).dependentOn()
	m.at("prove", func() error { m.noUnits = true; return nil })
	if err := m.do(Downgrade); err != nil || host.Exists(m.Host.Paths.Journal()) {
		t.Fatalf("it ends with %v", err)
	}
	m.dropHooks()
	m.noUnits = false
	if err, _ := m.tick(); err != nil || !m.others["app.service"] || !nothingStopped(m.Host.Paths) {
		t.Errorf("%v, and the units are %v", err, m.others)
	}
}

// A unit that somebody started in the middle of a change went down with the version that failed, and is up again after it.
func TestAUnitThatWasStartedInTheMiddleIsBroughtBack(t *testing.T) {
	m := upgrade(t, two(neverReady)).dependentOn()
	m.at("watch", func() error {
		if m.main.version == "1.1.0" {
			m.others["idle.service"] = true
		}
		return nil
	})
	if err := m.do(Update); err == nil || !m.others["idle.service"] || !m.others["app.service"] {
		t.Errorf("%v, and the units are %v", err, m.others)
	}
	if !nothingStopped(m.Host.Paths) {
		t.Error("a note of the change stays")
	}
}

// A journal that is rebuilt has the units that went down, and those that its undoing takes down: status tells which of them do
// not start again.
func TestARebuiltJournalHasTheUnitsThatGoDown(t *testing.T) {
	scene := func() *model { return downgrade(t, holds).dependentOn() }
	dry := scene()
	must(t, dry.do(Downgrade))
	rebuilt := 0
	for n := range dry.calls {
		m := scene()
		m.killedAt(t, Downgrade, n)
		broken["removed, the backup is believed"](m)
		wentDown := !m.others["app.service"]
		m.others["idle.service"] = true // by somebody, since
		j, err := m.rebuildJournal(t.Context())
		if err != nil || j == nil || !wentDown {
			continue
		}
		rebuilt++
		if want := []string{"app.service", "idle.service"}; !slices.Equal(j.Agent.Dependents, want) {
			t.Errorf("killed at %d %s: the journal has the units %q, want %q", n, dry.calls[n], j.Agent.Dependents, want)
		}
	}
	if rebuilt == 0 {
		t.Error("no journal is rebuilt while units are down")
	}
}
