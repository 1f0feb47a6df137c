package transaction

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/state"
)

// A first database that the version which failed made is not the old version's, which may
// have none yet: it is kept aside.
func TestAFirstDatabaseOfAVersionThatFailsKeepsTheOldOneFromNothing(t *testing.T) {
	for _, schema := range []int{1, 2} {
		m := upgrade(t, behaviour{schema: schema, fate: diesLate})
		m.creates = true
		others.close(m.db)
		must(t, os.Remove(m.db))
		m.look()
		m.rows, m.wrong = map[int]row{}, nil // all of it is gone
		if err := m.do(Update); err == nil || strings.Contains(err.Error(), "rolling back failed") {
			t.Errorf("it ends with %v", err)
		}
		m.endsOn("1.0.0")
		aside, err := filepath.Glob(m.db + ".of-1.1.0-*")
		if moved := schema != 1; err != nil || (len(aside) == 1) != moved {
			t.Errorf("schema %d: kept aside: %q, %v", schema, aside, err)
		}
		c, err := state.LoadConfig(m.Host.Paths.Config())
		must(t, err)
		if len(aside) == 1 && !strings.Contains(c.Status.LastUpdate.Error, aside[0]) {
			t.Errorf("status says %q", c.Status.LastUpdate.Error)
		}
	}
}

// Whoever is killed after that move has the next run name what is kept aside.
func TestAFirstDatabaseThatIsKeptAsideIsNamedAfterAKill(t *testing.T) {
	m := upgrade(t, behaviour{schema: 2, fate: diesLate})
	m.creates = true
	others.close(m.db)
	must(t, os.Remove(m.db))
	m.look()
	m.rows, m.wrong = map[int]row{}, nil
	aside := func() []string {
		names, err := filepath.Glob(m.db + ".of-1.1.0-*")
		must(t, err)
		return names
	}
	m.before = func(string) error {
		if len(aside()) > 0 {
			panic(killed{})
		}
		return nil
	}
	if _, dead := m.runs(func() error { return m.transact(t.Context(), m.request(Update)) }); !dead || len(aside()) != 1 {
		t.Fatalf("killed: %t; kept aside: %q", dead, aside())
	}
	m.dropHooks()
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
	c, err := state.LoadConfig(m.Host.Paths.Config())
	must(t, err)
	if !strings.Contains(c.Status.LastUpdate.Error, aside()[0]) {
		t.Errorf("status says %q", c.Status.LastUpdate.Error)
	}
}

// Where the old process never stopped serving, nobody sees whether the version could start
// with that database: it starts as it would have without the transaction.
func TestAFirstDatabaseIsOutOfTheWayOfAnOldProcessThatServesOn(t *testing.T) {
	for _, schema := range []int{1, 2} {
		m := upgrade(t, behaviour{schema: schema, fate: dies})
		m.creates = true
		others.close(m.db)
		must(t, os.Remove(m.db))
		m.look()
		m.rows, m.wrong = map[int]row{}, nil
		serving := m.main
		if err := m.do(Update); err == nil || strings.Contains(err.Error(), "rolling back failed") {
			t.Errorf("it ends with %v", err)
		}
		if m.main != serving {
			t.Error("the process that served was stopped")
		}
		aside, err := filepath.Glob(m.db + ".of-1.1.0-*")
		if err != nil || len(aside) != 1 {
			t.Errorf("schema %d: kept aside: %q, %v", schema, aside, err)
		}
		m.wrong = nil // the file that it has open was removed before
		m.ends()
		m.startUnit()
		m.endsOn("1.0.0")
	}
}

// The old process may have made it, or opened it since: then it is what that works with, and
// the transaction is closed all the same.
func TestAFirstDatabaseThatTheOldProcessOpensStays(t *testing.T) {
	m := upgrade(t, behaviour{schema: 1, fate: dies})
	m.creates = true
	others.close(m.db)
	must(t, os.Remove(m.db))
	m.look()
	m.rows, m.wrong = map[int]row{}, nil
	serving := m.main
	m.after = func(call string) error {
		if _, err := os.Stat(m.db); err == nil {
			others.open(m.db)
		}
		return nil
	}
	if err := m.do(Update); err == nil || strings.Contains(err.Error(), "rolling back failed") {
		t.Errorf("it ends with %v", err)
	}
	if m.main != serving {
		t.Error("the process that served was stopped")
	}
	if aside, _ := filepath.Glob(m.db + ".of-1.1.0-*"); len(aside) != 0 {
		t.Errorf("it was moved away under those who have it open: %q", aside)
	}
	for range 2 {
		if err, _ := m.tick(); err != nil {
			t.Errorf("the next run: %v", err)
		}
	}
	m.after = nil
	if m.main != serving {
		t.Error("the process that served was stopped")
	}
}

// A rollback that was forced from a damaged database, and whose target fails, gives that
// one back: the target's is not its own.
func TestADamagedDatabaseIsPutBackWhenTheTargetFails(t *testing.T) {
	for _, reached := range []string{"unit", "reload", "database"} {
		m := testMachine(t)
		writeFile(t, m.Host.Paths.Config(), wholeConfig)
		db := filepath.Join(m.Host.Paths.DataDir, "proc", "sqlite.db")
		kept := "sqlite.db.damaged-20260101T000000Z"
		writeFile(t, db, "the target's")
		writeFile(t, db+"-wal", "the target's")
		writeFile(t, filepath.Join(filepath.Dir(db), kept), "damaged")
		writeFile(t, filepath.Join(filepath.Dir(db), kept+"-journal"), "damaged, too")
		tr := m.open(t, rollingBack, func(j *state.Journal) {
			j.Reached, j.Unit.Path = reached, m.Host.Paths.Unit()
			j.Database = state.Database{Plan: state.RestoreDatabase, Path: db, Damaged: true, Aside: kept}
		})
		must(t, tr.undo(t.Context()))
		want := map[string]string{"": "damaged", "-journal": "damaged, too"}
		if reached == "unit" { // nothing had taken its place
			want = map[string]string{"": "the target's", "-wal": "the target's"}
		}
		for _, suffix := range []string{"", "-wal", "-journal"} {
			if got, _ := os.ReadFile(db + suffix); string(got) != want[suffix] {
				t.Errorf("after %s: sqlite.db%s holds %q; want %q", reached, suffix, got, want[suffix])
			}
		}
	}
}

// Where it cannot be put back, the target keeps all of the pair: the version before would
// start on the database of the target.
func TestADamagedDatabaseThatCannotBePutBackKeepsTheTargetWhole(t *testing.T) {
	m := cutOff("", func(t *testing.T) *model { return downgrade(t, diesLate) }, Downgrade, "stop", 2, false).make(t)
	const kept = "sqlite.db.damaged-20260101T000000Z"
	must(t, os.Link(filepath.Join(m.Host.Store.Dir, "1.1.0", "backup", "sqlite.db"), filepath.Join(filepath.Dir(m.db), kept)))
	m.edit(func(j *state.Journal) { j.Database.Taken, j.Database.Damaged, j.Database.Aside = false, true, kept })
	stops := 0
	m.at("stop", func() error {
		if stops++; stops > 1 {
			return errNoAnswer
		}
		return nil
	})
	m.after = func(call string) error {
		if call == "stop" && stops == 1 {
			m.startUnit() // somebody starts the target again
		}
		return nil
	}
	err, _ := m.tick()
	m.needsPerson(err, "put the damaged database back: stop the agent: ")
	if err := m.sound(); err != nil {
		t.Error(err)
	}
	m.dropHooks()
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.1.0")
}
