package transaction

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
)

// removed takes the version that is being left off the disk, with its programs and its
// database.
func (m *model) removed() {
	m.t.Helper()
	must(m.t, os.RemoveAll(filepath.Join(m.Host.Paths.Versions(), m.from.Version)))
}

// Somebody removes the version before while the transaction is open, in each phase: its program
// is fetched again, and its database is there under its second name.
func TestAVersionThatIsRemovedIsGoneBackToAllTheSame(t *testing.T) {
	some := sampled{every: 11}
	all := scenes()
	for _, f := range []fate{diesFirst, diesLate, neverReady} {
		same := func(t *testing.T) *model { return upgrade(t, behaviour{schema: 1, fate: f}) }
		call, nth := "watch", 1
		if f == diesFirst {
			call, nth = "daemon-reload", 2 // the old process never stopped serving
		}
		all = append(all, cutOff("of the same schema, "+string(f), same, Update, call, nth, false))
	}
	for _, s := range all {
		for _, boot := range []bool{false, true} {
			if some.skips() {
				continue
			}
			t.Run(fmt.Sprintf("%s/boot=%v", s.name, boot), func(t *testing.T) {
				m := s.make(t)
				m.removed()
				_, _ = m.recovers(boot)
				if boot {
					_, _ = m.tick()
				}
				if err := m.closed(); err != nil {
					t.Error(err)
				}
				if v, _ := m.program(); !m.onDisk(v) {
					t.Errorf("version %s is linked, and not whole on disk", v)
				}
			})
		}
	}
}

// The other way round, in one go: nothing was killed.
func TestAVersionThatIsRemovedInMidWatchIsGoneBackTo(t *testing.T) {
	for _, make := range []func(*testing.T) *model{
		func(t *testing.T) *model { return upgrade(t, two(diesLate)) },
		func(t *testing.T) *model { return upgrade(t, two(neverReady)) },
		func(t *testing.T) *model { return downgrade(t, diesLate) },
	} {
		m := make(t)
		m.at("watch", func() error { m.before = nil; m.removed(); return nil })
		if err := m.do(Rollback); err == nil {
			t.Error("it ends well")
		}
		m.endsOn(m.from.Version)
	}
}

func TestTheSecondNameIsRootsAndThereAsLongAsTheTransactionIsOpen(t *testing.T) {
	m := upgrade(t, twoHolds)
	looked := false
	m.at("watch", func() error {
		looked = true
		dir, err := os.Stat(m.Host.Paths.Rollback())
		must(t, err)
		one, err := os.Stat(filepath.Join(m.Host.Paths.Versions(), "1.0.0", "backup", "sqlite.db"))
		must(t, err)
		other, err := os.Stat(filepath.Join(m.Host.Paths.Rollback(), "sqlite.db"))
		must(t, err)
		if dir.Mode().Perm() != 0o700 || !os.SameFile(one, other) {
			t.Errorf("%v holds another file, or is open to others", dir.Mode())
		}
		j, err := state.LoadJournal(m.Host.Paths.Journal())
		if err != nil || j.Database.SecondDir != m.Host.Paths.Rollback() || j.ReadableFrom != 2 {
			t.Errorf("the journal says %+v, readable from %d, %v", j.Database, j.ReadableFrom, err)
		}
		return nil
	})
	must(t, m.do(Update))
	m.endsOn("1.1.0")
	if !looked {
		t.Error("nobody looked")
	}
}

// A program of the first release takes a backup with two names for a damaged one: where it
// is the one that recovers at boot, there is one name.
func TestAnOlderRescuerGetsABackupThatItCanUse(t *testing.T) {
	for name, says := range map[string]string{"it knows schema 1": `echo '{"schema": 1}'`, "it does not say": "exit 3"} {
		t.Run(name, func(t *testing.T) {
			m := upgrade(t, two(diesLate))
			for _, program := range []string{m.Host.Program, m.Host.Paths.Updater()} {
				must(t, os.Remove(program))
				writeFile(t, program, "#!/bin/sh\n"+says+"\n")
				must(t, os.Chmod(program, 0o755))
			}
			m.at("watch", func() error {
				info, err := os.Stat(filepath.Join(m.Host.Paths.Versions(), "1.0.0", "backup", "sqlite.db"))
				must(t, err)
				j, err := state.LoadJournal(m.Host.Paths.Journal())
				must(t, err)
				if n := info.Sys().(*syscall.Stat_t).Nlink; n != 1 || !j.ForAll() || j.Database.SecondDir != "" || host.Exists(m.Host.Paths.Rollback()) {
					t.Errorf("%d names, readable from %d, in %q", n, j.ReadableFrom, j.Database.SecondDir)
				}
				return nil
			})
			if err := m.do(Update); err == nil {
				t.Error("it ends well")
			}
			m.endsOn("1.0.0")
		})
	}
}

// Without hard links a transaction goes on, and says what that means.
func TestABackupThatGetsNoSecondNameIsSaidToHaveNone(t *testing.T) {
	m := killedInMidWatch(t, diesLate)
	j, err := load(m.Host.Paths.Journal())
	must(t, err)
	j.Database.SecondDir = "/proc/self/rollback"
	var said bytes.Buffer
	m.Host.Log = slog.New(slog.NewTextHandler(&said, nil))
	if second := (&transaction{m: m.Machine, j: j}).giveSecondName(); second != "" || !strings.Contains(said.String(), "takes the only backup") {
		t.Errorf("it has one in %q, and says %q", second, said.String())
	}
}

// Somebody removes the journal, and then the version: what was written again knows of the
// second name.
func TestAJournalThatIsWrittenAgainKnowsTheSecondName(t *testing.T) {
	m := cutOff("", func(t *testing.T) *model { return upgrade(t, two(neverReady)) }, Update, "watch", 1, false).make(t)
	must(t, os.Remove(m.Host.Paths.Journal()))
	m.at("watch", func() error { m.before = nil; m.removed(); return nil })
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
}

// What a journal that is gone left is removed, for it keeps the room of an old backup.
func TestASecondNameWithoutAJournalGoes(t *testing.T) {
	m := upgrade(t, twoHolds)
	writeFile(t, filepath.Join(m.Host.Paths.Rollback(), "sqlite.db"), "left")
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
}

// Somebody removes the version and then the journal: what is left is the only copy of the
// old version's database, and not for the next run to remove.
func TestASecondNameThatIsTheOnlyOneStays(t *testing.T) {
	m := killedInMidWatch(t, holds)
	must(t, os.RemoveAll(filepath.Join(m.Host.Paths.Versions(), "1.0.0")))
	must(t, os.Remove(m.Host.Paths.Journal()))
	only := filepath.Join(m.Host.Paths.Rollback(), "sqlite.db")
	for _, tc := range []struct {
		after time.Duration
		stays bool
	}{{0, true}, {23 * time.Hour, true}, {25 * time.Hour, false}} {
		m.Now = func() time.Time { return testNow().Add(tc.after) }
		if err, _ := m.tick(); err != nil {
			t.Error(err)
		}
		if host.Exists(only) != tc.stays {
			t.Errorf("after %v the only copy is there: %v", tc.after, !tc.stays)
		}
	}
}
