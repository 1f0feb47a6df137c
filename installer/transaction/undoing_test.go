package transaction

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// at calls do before each call of a name.
func (m *model) at(name string, do func() error) {
	m.before = func(call string) error {
		if call == name {
			return do()
		}
		return nil
	}
}

func (m *model) needsPerson(err error, says string) {
	m.t.Helper()
	if _, person := errors.AsType[*failure.NeedsPersonError](err); !person || !strings.Contains(err.Error(), says) {
		m.t.Errorf("it ends with %v; want a person to be called, and %q", err, says)
	}
}

// An agent that cannot be stopped goes on as what it is: nothing is put back under
// it, whether its database changed or not.
func TestNothingIsPutBackUnderAnAgentThatCannotBeStopped(t *testing.T) {
	for _, schema := range []int{1, 2} {
		m := upgrade(t, behaviour{schema: schema, fate: neverReady})
		m.at("stop", func() error { return errNoAnswer })
		m.needsPerson(m.do(Update), "stop the agent: ")
		if v, _ := m.program(); v != "1.1.0" || m.main == nil || m.main.version != v {
			t.Errorf("schema %d: %s is linked, and %+v runs", schema, v, m.main)
		}
		m.dropHooks()
		if err, _ := m.tick(); err != nil {
			t.Error(err)
		}
		m.endsOn("1.0.0")
	}
}

// Where the database cannot go back, the new version keeps all of the pair, not for
// a moment without a part of it, and the next run begins again.
func TestADatabaseThatCannotGoBackKeepsTheNewVersionWhole(t *testing.T) {
	m := upgrade(t, two(neverReady))
	saved := m.Host.Store.Dir + "/1.0.0/backup/sqlite.db"
	m.at("watch", func() error {
		must(t, os.Rename(saved, saved+".away"))
		must(t, os.RemoveAll(m.Host.Paths.Rollback()))
		m.before = func(call string) error {
			if v, _ := m.program(); v != "1.1.0" || !strings.Contains(m.unitFile(), "1.1.0") {
				t.Errorf("at the call %s, %s is linked, with the unit %q", call, v, m.unitFile())
			}
			return nil
		}
		return nil
	})
	m.needsPerson(m.do(Update), "the database cannot go back")
	if err := m.sound(); err != nil {
		t.Error(err)
	}
	must(t, os.Rename(saved+".away", saved))
	m.dropHooks()
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
}

// A backup that proves damaged only when it is restored is no reason to leave the
// old version on a database that it cannot read.
func TestABackupThatProvesDamagedBringsTheNewVersionBack(t *testing.T) {
	m := upgrade(t, two(neverReady))
	m.at("watch", func() error {
		f, err := os.OpenFile(m.Host.Store.Dir+"/1.0.0/backup/sqlite.db", os.O_RDWR, 0)
		must(t, err)
		_, err = f.WriteAt([]byte("garbage"), 4096)
		must(t, errors.Join(err, f.Close()))
		return nil
	})
	m.needsPerson(m.do(Update), "is damaged")
	if err := m.sound(); err != nil {
		t.Error(err)
	}
	if v, _ := m.program(); v != "1.1.0" {
		t.Errorf("%s is linked", v)
	}
	// It was stopped once for that, and the journal says so: the next runs read the backup first.
	m.edit(func(j *state.Journal) {
		if !strings.Contains(j.Database.InTheWay, "is damaged") {
			t.Errorf("for status the journal says %q", j.Database.InTheWay)
		}
	})
	before := m.main.pid
	for range 2 {
		err, _ := m.tick()
		m.needsPerson(err, "is damaged")
	}
	if m.main == nil || m.main.pid != before {
		t.Error("the agent was stopped again")
	}
}

// Somebody who starts the agent again and again (a configuration management, say)
// comes between the stop and the restore.
func TestSomebodyStartsTheAgentAfterEachStop(t *testing.T) {
	t.Run("once", func(t *testing.T) {
		m := downgrade(t, diesLate)
		stops := 0
		m.after = func(call string) error {
			if call == "stop" {
				if stops++; stops == 3 { // the forward one, the first of the undoing, the one before the restore
					m.startUnit()
				}
			}
			return nil
		}
		if err := m.do(Downgrade); err == nil || strings.Contains(err.Error(), "rolling back failed") {
			t.Errorf("it ends with %v", err)
		}
		m.endsOn("1.1.0")
	})
	// It would migrate the database of the older version, and could work with that;
	// but it is not the database that it had.
	for by, says := range map[string]string{
		"":               "somebody starts the agent again whenever it is stopped",
		"keeper.service": "keeper.service starts the agent again whenever it is down (Upholds=, or a .path unit): stop that first",
	} {
		t.Run("always "+by, func(t *testing.T) {
			m := downgrade(t, diesLate)
			stops := 0
			m.after = func(call string) error {
				if call == "stop" {
					if stops++; stops >= 3 {
						if by != "" { // since the transaction began
							m.ties.Starters, m.others = []string{by}, map[string]bool{by: true}
						}
						m.startUnit()
					}
				}
				return nil
			}
			err := m.do(Downgrade)
			m.needsPerson(err, "is open in another process")
			if !strings.Contains(err.Error(), says) {
				t.Errorf("it says %v", err)
			}
			m.dropHooks()
			m.ties.Starters = nil
			if err, _ := m.tick(); err != nil {
				t.Error(err)
			}
			m.endsOn("1.1.0")
		})
	}
}

func (m *model) unitFile() string {
	text, _ := os.ReadFile(m.Host.Paths.Unit())
	return string(text)
}

// What stands in the way of one link keeps neither the agent nor its database from
// going back, and the database goes back once: the old version writes meanwhile.
func TestAFolderInThePlaceOfALinkKeepsNothingElseFromGoingBack(t *testing.T) {
	m := upgrade(t, two(diesLate))
	tsh := filepath.Join(m.Host.Paths.LinkDir, "tsh")
	here := func(*model) string { return tsh }
	m.at("watch", func() error {
		m.before = nil
		must(t, os.Remove(tsh))
		must(t, os.Mkdir(tsh, 0o755))
		if os.Geteuid() != 0 {
			t.Skip("only root can have a folder that cannot be moved aside")
		}
		readOnly(here)(t, m)
		return nil
	})
	m.needsPerson(m.do(Update), "keep "+tsh+" aside")
	for range 3 {
		if err := m.sound(); err != nil {
			t.Error(err)
		}
		if v, _ := m.program(); v != "1.0.0" {
			t.Fatalf("%s is linked", v)
		}
		m.write()
		before := m.main
		err, _ := m.tick()
		m.needsPerson(err, "keep "+tsh+" aside")
		if m.main != before {
			t.Error("a tick stopped an agent that ran")
		}
	}
	writable(here)(t, m)
	must(t, os.Remove(tsh))
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
}

// A cut says nothing about the version: it is watched again, once, and in the same
// boot.
func TestAVersionIsWatchedAgainOnce(t *testing.T) {
	inMidWatch := func(t *testing.T) *model {
		return cutOff("", func(t *testing.T) *model { return upgrade(t, twoHolds) }, Update, "watch", 1, false).make(t)
	}
	again := func(m *model) {
		m.cut("watch", 1, false)
		if _, dead := m.tick(); !dead {
			t.Fatalf("the second watch was not killed: %q", m.calls)
		}
		m.dropHooks()
	}
	for name, tc := range map[string]struct {
		before func(*model)
		ends   string
	}{
		"the second watch":            {func(*model) {}, "1.1.0"},
		"after the second was cut":    {again, "1.0.0"},
		"after a boot without repair": {func(m *model) { m.ends(); m.boots++; m.startUnit() }, "1.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			m := inMidWatch(t)
			tc.before(m)
			if err, _ := m.tick(); err != nil {
				t.Error(err)
			}
			m.endsOn(tc.ends)
		})
	}
}

// A second watch that systemd left in the middle says nothing about the version, which is
// watched again.
func TestASecondWatchThatLosesSystemdIsMadeAgain(t *testing.T) {
	m := cutOff("", func(t *testing.T) *model { return upgrade(t, twoHolds) }, Update, "watch", 1, true).make(t)
	m.at("watch", func() error { return fmt.Errorf("%w: the socket is gone", systemd.ErrUnreachable) })
	err, _ := m.tick()
	m.needsPerson(err, "is left open")
	m.dropHooks()
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.1.0")
}

// From the moment a second watch has proven the version, there is only forward.
func TestATransactionThatIsKilledAfterItsSecondWatchIsFinished(t *testing.T) {
	m := cutOff("", func(t *testing.T) *model { return upgrade(t, twoHolds) }, Update, "watch", 1, false).make(t)
	m.Now = func() time.Time {
		if slices.Contains(m.calls, "watch") {
			panic(killed{}) // updates.yaml is about to be written
		}
		return testNow()
	}
	if _, dead := m.tick(); !dead {
		t.Fatalf("the recovery was not killed: %q", m.calls)
	}
	if d, err := Describe(m.Host.Paths.Journal()); err != nil || d == nil || d.Phase != proven {
		t.Errorf("the journal says %+v, %v", d, err)
	}
	m.Now = testNow
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.1.0")
}

// A transaction that begins while the host shuts down would take the agent for one that a
// person stopped, and be committed without a watch.
func TestATransactionDoesNotBeginWhileTheHostShutsDown(t *testing.T) {
	m := upgrade(t, twoHolds)
	m.at("look", func() error {
		m.ends()
		m.down = true
		return nil
	})
	if err := m.do(Update); err == nil || !strings.Contains(err.Error(), "the host is shutting down; the agent stays on version 1.0.0") {
		t.Errorf("it ends with %v", err)
	}
	m.dropHooks()
	if err, _ := m.reboot(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
}

// Somebody restarted the agent by links that were the new version's already. It is
// stopped before it is looked at what it did to the database, and the old one gets
// back its own.
func TestAVersionThatWasStartedBeforeItWasSwitchedToIsUndoneWithItsDatabase(t *testing.T) {
	for name, tc := range map[string]struct {
		schema int
		then   func(*model)
	}{
		"and migrated":               {2, func(*model) {}},
		"and left the schema":        {1, func(*model) {}},
		"and is down again":          {2, func(m *model) { m.ends(); m.failed = true }},
		"and was stopped, by a boot": {2, func(m *model) { m.reboot() }},
	} {
		t.Run(name, func(t *testing.T) {
			m := cutOff("", func(t *testing.T) *model { return upgrade(t, behaviour{schema: tc.schema, fate: holds}) }, Update, "daemon-reload", 1, true).make(t)
			m.ends()
			m.startUnit()
			if m.main == nil || m.main.version != "1.1.0" || m.seen.schema != tc.schema {
				t.Fatalf("%+v runs on schema %d: this test shows nothing", m.main, m.seen.schema)
			}
			mine := slices.Max(m.seen.rows)
			tc.then(m)
			if err, _ := m.tick(); err != nil {
				t.Error(err)
			}
			m.endsOn("1.0.0")
			if kept := slices.Contains(m.seen.rows, mine); kept != (tc.schema == 1) {
				t.Errorf("the row of 1.1.0 is there: %v", kept)
			}
			c, err := m.Host.Paths.LoadConfig()
			if err != nil || c.Status.LastUpdate.Result != state.Interrupt {
				t.Errorf("%+v, %v", c.Status.LastUpdate, err)
			}
		})
	}
}
