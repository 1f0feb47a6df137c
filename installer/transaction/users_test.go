package transaction

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// opens has a process of its own hold the database open, until end is called.
func (m *model) opens(flags int) (pid int, end func()) {
	m.t.Helper()
	f, err := os.OpenFile(m.db, flags, 0)
	must(m.t, err)
	defer f.Close()
	cmd := exec.Command("sleep", "600")
	cmd.Stdin = f
	must(m.t, cmd.Start())
	end = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	m.t.Cleanup(end)
	return cmd.Process.Pid, end
}

// A downgrade would be undone for it, after all sessions were cut.
func TestADowngradeWhoseDatabaseIsInUseIsRefusedBeforeTheStop(t *testing.T) {
	m := downgrade(t, holds)
	pid, end := m.opens(os.O_RDWR)
	runs := m.main
	for range 2 {
		err := m.do(Downgrade)
		if _, refused := errors.AsType[*failure.RefusedError](err); !refused || !strings.Contains(err.Error(), fmt.Sprintf("(%d sleep)", pid)) {
			t.Fatalf("it ends with %v; want a refusal that names the process %d", err, pid)
		}
		if m.main != runs || slices.Contains(m.calls, "stop") {
			t.Errorf("the agent was stopped: %q", m.calls)
		}
	}
	c, err := m.Host.Paths.LoadConfig()
	if err != nil || c.Status.Failed != nil {
		t.Errorf("the version is blamed: %+v, %v", c.Status.Failed, err)
	}
	end()
	must(t, m.do(Downgrade))
	m.endsOn("1.0.0")
}

// A process that could not be looked at may have the database open: nobody can tell that it has not.
func TestADatabaseIsNotExchangedIfItsUsersCannotBeSeen(t *testing.T) {
	m := downgrade(t, holds)
	m.opens(os.O_RDWR)
	runs := m.main
	var err error
	blindly(t, func() { err = m.do(Downgrade) })
	if _, refused := errors.AsType[*failure.RefusedError](err); !refused || !strings.Contains(err.Error(), "could not look at PID ") {
		t.Errorf("it ends with %v; want a refusal that names a process", err)
	}
	if m.main != runs || slices.Contains(m.calls, "stop") {
		t.Errorf("the agent was stopped: %q", m.calls)
	}
	if c, err := m.Host.Paths.LoadConfig(); err != nil || c.Status.Failed != nil {
		t.Errorf("the version is blamed: %+v, %v", c.Status.Failed, err)
	}
}

// What undoes a change puts the database back, whoever may not be looked at.
func TestAnUndoingDoesNotWaitForWhatCannotBeSeen(t *testing.T) {
	m := upgrade(t, two(dies))
	var err error
	blindly(t, func() { err = m.do(Update) })
	if err == nil {
		t.Fatal("a version that dies is proven")
	}
	m.endsOn("1.0.0")
}

// blindly does something without the right to look at processes that have it.
func blindly(t *testing.T, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var before [2]unix.CapUserData
	must(t, unix.Capget(&header, &before[0]))
	if before[0].Effective&(1<<unix.CAP_SYS_PTRACE) == 0 {
		t.Skip("this process may not look at others anyway")
	}
	without := before
	without[0].Effective &^= 1 << unix.CAP_SYS_PTRACE
	must(t, unix.Capset(&header, &without[0]))
	defer func() { must(t, unix.Capset(&header, &before[0])) }()
	do()
}

// Somebody who only reads, without a connection, is in nobody's way.
func TestWhoOnlyReadsTheDatabaseKeepsNothingFromGoingBack(t *testing.T) {
	for name, make := range map[string]func(t *testing.T) (*model, Kind, string){
		"an upgrade that fails": func(t *testing.T) (*model, Kind, string) { return upgrade(t, two(diesLate)), Update, "1.0.0" },
		"a downgrade":           func(t *testing.T) (*model, Kind, string) { return downgrade(t, holds), Downgrade, "1.0.0" },
	} {
		t.Run(name, func(t *testing.T) {
			m, kind, ends := make(t)
			m.opens(os.O_RDONLY)
			err := m.do(kind)
			if _, person := errors.AsType[*failure.NeedsPersonError](err); person {
				t.Error(err)
			}
			m.endsOn(ends)
		})
	}
}

// Somebody who is connected, or may write, keeps the database where it is, and so the
// new version: no tick stops its agent for nothing, and status names the process.
func TestTheNewVersionStaysWholeAsLongAsSomebodyIsConnected(t *testing.T) {
	m := upgrade(t, two(neverReady))
	pid, end := m.opens(os.O_RDWR)
	who := fmt.Sprintf("(%d sleep)", pid)
	runs := func() {
		t.Helper()
		if err := m.sound(); err != nil {
			t.Error(err)
		}
		if v, _ := m.program(); v != "1.1.0" || m.main == nil {
			t.Errorf("%s is linked, and %+v runs", v, m.main)
		}
		d, err := Describe(m.Host.Paths.Journal())
		if err != nil || d == nil || !strings.Contains(d.CutOff, who) {
			t.Errorf("status says %+v, %v; want %s", d, err, who)
		}
	}
	m.needsPerson(m.do(Update), who)
	runs()
	first := m.main
	for range 3 {
		m.write()
		m.calls = nil
		err, _ := m.tick()
		m.needsPerson(err, who)
		runs()
		if m.main != first || slices.ContainsFunc(m.calls, func(c string) bool { return c == "stop" || c == "restart" || c == "prove" }) {
			t.Errorf("a tick stopped or watched the agent: %q", m.calls)
		}
	}
	end()
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
}

// The old version can go on with the rows of the new one, so there is nothing to
// restore under somebody who is connected.
func TestTheOldVersionGoesOnWithADatabaseInUseThatItCanRead(t *testing.T) {
	m := upgrade(t, behaviour{schema: 1, fate: diesLate})
	m.opens(os.O_RDWR)
	if err := m.do(Update); err == nil || strings.Contains(err.Error(), "rolling back failed") {
		t.Errorf("it ends with %v", err)
	}
	m.endsOn("1.0.0")
	if m.restores != 0 {
		t.Errorf("restored %d times", m.restores)
	}
}

// Who comes and goes is waited for while the agent is up.
func TestWhoGoesInTimeIsWaitedFor(t *testing.T) {
	m := downgrade(t, holds)
	m.UserPatience = time.Minute
	_, end := m.opens(os.O_RDWR)
	looks := 0
	m.at("look", func() error {
		if looks++; looks == 4 {
			end()
		}
		if slices.Contains(m.calls, "stop") && looks < 4 {
			t.Error("the agent was stopped first")
		}
		return nil
	})
	must(t, m.do(Downgrade))
	m.endsOn("1.0.0")
}

// What the agent's user puts in the place of the folder is not the folder.
func TestADatabaseGoesBackIntoTheFolderItCameFromOnly(t *testing.T) {
	m := upgrade(t, two(diesLate))
	proc := filepath.Dir(m.db)
	m.at("watch", func() error {
		m.before = nil
		others.close(m.db)
		must(t, os.Rename(proc, proc+".away"))
		must(t, os.Mkdir(proc, 0o700))
		return nil
	})
	// The transaction of one process goes on in the folder that it holds open; that
	// of another finds the one in its place. So does the agent, which finds no database.
	if err := m.do(Update); err == nil {
		t.Error("it succeeds")
	}
	if entries, err := os.ReadDir(proc); err != nil || len(entries) > 0 {
		t.Errorf("in the other folder: %v, %v", entries, err)
	}
	if got := schemaOf(t, proc+".away/sqlite.db"); got != 1 {
		t.Errorf("the database that was moved has schema %d", got)
	}
}

// schemaOf is -1 where there is no database.
func schemaOf(t *testing.T, path string) int {
	t.Helper()
	c, err := sqlite3.OpenFlags(path, sqlite3.OPEN_READONLY)
	if errors.Is(err, sqlite3.CANTOPEN) {
		return -1
	}
	must(t, err)
	defer c.Close()
	stmt, _, err := c.Prepare("PRAGMA user_version")
	must(t, err)
	defer stmt.Close()
	stmt.Step()
	return stmt.ColumnInt(0)
}

// Another process, or another boot, finds the folder by its identity.
func TestTheFolderOfTheJournalIsTheOnlyOne(t *testing.T) {
	for name, tc := range map[string]struct {
		boot   bool
		change func(t *testing.T, m *model, j *state.Journal)
		undone bool
	}{
		"the same": {undone: true},
		"another, in the same boot": {change: func(t *testing.T, m *model, j *state.Journal) {
			j.Database.Folder.Inode++
		}},
		"the same disk with another device number, after a boot": {boot: true, undone: true, change: func(t *testing.T, m *model, j *state.Journal) {
			j.Database.Folder.Device++
		}},
		"the same disk, whose file system has another number too, after a boot": {boot: true, undone: true, change: func(t *testing.T, m *model, j *state.Journal) {
			j.Database.Folder.Device++
			j.Database.Folder.FileSystem = "0"
		}},
		"another, after a boot, that holds another database": {boot: true, change: func(t *testing.T, m *model, j *state.Journal) {
			j.Database.Folder.Device++
			j.Database.Folder.FileSystem = "0"
			must(t, os.Remove(m.db))
			c, err := sqlite3.Open(m.db)
			must(t, err)
			must(t, c.Exec("CREATE TABLE rows (n INTEGER); PRAGMA user_version=2"))
			must(t, c.Close())
		}},
		"another, after a boot, that is empty": {boot: true, change: func(t *testing.T, m *model, j *state.Journal) {
			j.Database.Folder.Device++
			j.Database.Folder.FileSystem = "0"
			must(t, os.Remove(m.db))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := cutOff("", func(t *testing.T) *model { return upgrade(t, two(neverReady)) }, Update, "watch", 1, false).make(t)
			j, err := state.LoadJournal(m.Host.Paths.Journal())
			must(t, err)
			m.ends()
			if tc.change != nil {
				tc.change(t, m, j)
			}
			j.Watch.Again = true // so that it is undone
			must(t, j.Save(m.Host.Paths.Journal()))
			before := schemaOf(t, m.db)
			if tc.boot {
				m.boots++
				err = m.Recover(t.Context(), true)
			} else {
				err = m.recoverLive(t.Context())
			}
			after := schemaOf(t, m.db)
			v, _ := m.program()
			switch {
			case tc.undone && (err != nil || v != "1.0.0" || after != 1):
				t.Errorf("it ends with %v, %s is linked, and the database has schema %d", err, v, after)
			case !tc.undone && ((err == nil) != tc.boot || v != "1.1.0" || after != before): // at boot, it is left to the first tick
				t.Errorf("it ends with %v, %s is linked, and the database has schema %d; had %d", err, v, after, before)
			}
		})
	}
}
