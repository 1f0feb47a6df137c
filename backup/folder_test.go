package backup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"teleport-update/integration/trace"
)

// agentsUser is the user that the agent of these tests runs as.
const agentsUser = 1234

// watched is a folder of root's with a database, of which the kernel tells whoever
// opens, changes or names anything in it.
type watched struct {
	dir    string
	events int // the inotify(7) instance
}

func newWatched(t *testing.T) watched {
	t.Helper()
	w := watched{dir: filepath.Join(t.TempDir(), "root's")}
	makeDB(t, filepath.Join(w.dir, FileName), "", 40, 9)
	var err error
	w.events, err = unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	must(t, err)
	t.Cleanup(func() { unix.Close(w.events) })
	_, err = unix.InotifyAddWatch(w.events, w.dir, unix.IN_ALL_EVENTS)
	must(t, err)
	return w
}

// since returns the kernel's events since the last call.
func (w watched) since(t *testing.T) (events []string) {
	t.Helper()
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(w.events, buf)
		if err == unix.EAGAIN {
			return events
		}
		must(t, err)
		for at := 0; at < n; {
			mask, size := binary.NativeEndian.Uint32(buf[at+4:]), int(binary.NativeEndian.Uint32(buf[at+12:]))
			name := bytes.TrimRight(buf[at+unix.SizeofInotifyEvent:at+unix.SizeofInotifyEvent+size], "\x00")
			events = append(events, fmt.Sprintf("%#x %s", mask, name))
			at += unix.SizeofInotifyEvent + size
		}
	}
}

// The agent's user puts a link to a folder of root's in the place of proc/, between
// any two system calls of a backup and of a restore. Nothing in that folder is opened,
// read, made or removed, and the database in the first folder is what it was, or what
// the backup holds. In the whole under FAULTS=all, else a sample.
func TestNoFileOutsideTheFirstFolderIsOpenedWhateverTakesItsPlace(t *testing.T) {
	if testing.Short() {
		t.Skip("it races with another process")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root works in a folder of another user's")
	}
	self, err := os.Executable()
	must(t, err)
	old, backedUp := state{60, 2}, state{40, 1}
	for name, tc := range map[string]struct {
		role  string
		spoil func(t *testing.T, db string)
	}{
		"a backup in rollback mode": {"take", func(t *testing.T, db string) { makeDB(t, db, "", 60, 2) }},
		"a backup in WAL mode":      {"take", func(t *testing.T, db string) { makeDB(t, db, "PRAGMA journal_mode=wal", 60, 2) }},
		"a restore over a database": {"restore", func(t *testing.T, db string) { makeDB(t, db, "PRAGMA journal_mode=wal", 60, 2) }},
		"a restore of a new file": {"restore", func(t *testing.T, db string) {
			makeDB(t, db, "PRAGMA page_size=8192; PRAGMA journal_mode=wal", 60, 2)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			outside := newWatched(t)
			exchanged := 0
			run := func(at int) (calls int) {
				h := newHost(t)
				makeDB(t, h.db, "", 40, 1)
				h.take(t, "15.1.0")
				must(t, os.Remove(h.db))
				tc.spoil(t, h.db)
				data := filepath.Dir(filepath.Dir(h.db))
				proc, link := filepath.Dir(h.db), filepath.Join(data, "link")
				must(t, os.Symlink(outside.dir, link))
				must(t, os.Lchown(link, agentsUser, agentsUser))
				for _, path := range []string{data, proc, h.db} {
					must(t, os.Chown(path, agentsUser, agentsUser))
				}
				args := []string{self, h.db, h.dir, "15.1.0"}
				if tc.role == "restore" {
					args = []string{self, h.dir, h.db}
				}
				done := false
				outside.since(t)
				r, err := trace.Run(t.Context(), trace.Command{
					Argv: args, Env: append(os.Environ(), "BACKUP_TEST_ROLE="+tc.role), Lookups: true,
				}, func(c trace.Call) trace.Action {
					if c.Index == at && !c.Exit {
						must(t, unix.Renameat2(unix.AT_FDCWD, proc, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE))
						done = true
					}
					return trace.GoOn()
				})
				must(t, err)
				if events := outside.since(t); len(events) > 0 {
					t.Errorf("exchanged before call %d: somebody was in root's folder: %q", at, events)
				}
				if done {
					exchanged++
					must(t, unix.Renameat2(unix.AT_FDCWD, proc, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE))
				}
				got := inspect(t, h.db)
				switch {
				case r.ExitCode == 0 && tc.role == "restore" && got != backedUp,
					r.ExitCode != 0 && !strings.Contains(string(r.Stderr), "symbolic link"),
					tc.role == "take" && got != old:
					t.Errorf("exchanged before call %d: it ends with %d (%s), and the database holds %v", at, r.ExitCode, r.Stderr, got)
				}
				entries, err := os.ReadDir(proc)
				must(t, err)
				for _, e := range entries {
					info, err := e.Info()
					must(t, err)
					if uid := info.Sys().(*syscall.Stat_t).Uid; uid != agentsUser {
						t.Errorf("exchanged before call %d: %s belongs to %d", at, e.Name(), uid)
					}
				}
				return r.Calls
			}
			calls := run(0)
			step := 1
			if os.Getenv("FAULTS") != "all" {
				step = calls/16 + 1
			}
			for at := step; at <= calls; at += step {
				run(at)
			}
			t.Logf("%d calls, exchanged before %d of them", calls, exchanged)
			if exchanged < calls/step-2 {
				t.Errorf("exchanged %d times: this test shows nothing", exchanged)
			}
		})
	}
}

// A version that removed its database does not cost the agent its identity; a folder
// that is not there may be a mount that is late.
func TestARestoreMakesTheDatabaseButNotItsFolder(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "", 40, 1)
	h.take(t, "15.1.0")
	must(t, os.RemoveAll(filepath.Dir(h.db)))
	if err := restore(t.Context(), h.db, h.dir); !errors.Is(err, ErrNoDatabase) {
		t.Errorf("without the folder: %v; want ErrNoDatabase", err)
	}
	if _, err := os.Lstat(filepath.Dir(h.db)); err == nil {
		t.Error("the folder was made")
	}
	must(t, os.Mkdir(filepath.Dir(h.db), 0o750))
	if os.Geteuid() == 0 {
		must(t, os.Chown(filepath.Dir(h.db), agentsUser, 4321))
	}
	must(t, restore(t.Context(), h.db, h.dir))
	if got := inspect(t, h.db); got != (state{40, 1}) {
		t.Errorf("the database holds %v", got)
	}
	info, err := os.Stat(h.db)
	must(t, err)
	if st := info.Sys().(*syscall.Stat_t); os.Geteuid() == 0 && (st.Uid != agentsUser || st.Gid != 4321) {
		t.Errorf("it belongs to %d:%d; want the folder's owner", st.Uid, st.Gid)
	}
}

// A journal may name a super-journal, which SQLite looks up and may remove. The journal
// is the agent's user's, so the name could be that of any file.
func TestASuperJournalOutsideTheFolderIsNotLookedUp(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	for _, role := range []string{"take", "restore"} {
		t.Run(role, func(t *testing.T) {
			h := newHost(t)
			makeDB(t, h.db, "", 2000, 1)
			h.take(t, "15.1.0")
			start(t, "spill", h.db).kill()
			victim := filepath.Join(t.TempDir(), "victim")
			must(t, os.WriteFile(victim, nil, 0o600))
			nameSuperJournal(t, h.db+"-journal", victim)
			args := []string{self, h.db, h.dir, "15.1.1"}
			if role == "restore" {
				args = []string{self, h.dir, h.db}
			}
			_, err := trace.Run(t.Context(), trace.Command{
				Argv: args, Env: append(os.Environ(), "BACKUP_TEST_ROLE="+role), Lookups: true,
			}, func(c trace.Call) trace.Action {
				if c.Path == victim || c.To == victim {
					t.Error(c)
				}
				return trace.GoOn()
			})
			must(t, err)
			if role == "restore" && inspect(t, h.db) != (state{2000, 1}) {
				t.Error("the database is not the backup's")
			}
		})
	}
}

// nameSuperJournal appends the name of a super-journal to a rollback journal, in the
// form of SQLite's file format: the page of the locks, the name, its length, the sum of
// its bytes, and the magic of journals.
func nameSuperJournal(t *testing.T, journal, super string) {
	t.Helper()
	info, err := os.Stat(journal)
	must(t, err)
	const sector = 512
	record := make([]byte, (sector-info.Size()%sector)%sector) // it begins at a sector
	record = binary.BigEndian.AppendUint32(record, pendingByte/4096+1)
	record = append(record, super...)
	record = binary.BigEndian.AppendUint32(record, uint32(len(super)))
	sum := uint32(0)
	for _, c := range []byte(super) {
		sum += uint32(c)
	}
	record = binary.BigEndian.AppendUint32(record, sum)
	record = append(record, 0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7)
	f, err := os.OpenFile(journal, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.Write(record)
	must(t, errors.Join(err, f.Close()))
}

// A name that leads to somebody else's file, and did not when it was looked at, is
// found out before anything is written.
func TestSQLiteOpensNoFileWithAnotherName(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "PRAGMA journal_mode=wal", 40, 1)
	victim := filepath.Join(filepath.Dir(h.db), "victim")
	must(t, os.WriteFile(victim, []byte("root's"), 0o600))
	must(t, os.Link(victim, h.db+"-wal"))
	d, err := Open(h.db)
	must(t, err)
	defer d.Close()
	c, err := connect(t.Context(), d.at(), sqlite3.OPEN_READWRITE, "")
	if err == nil {
		err = c.Exec("DELETE FROM a")
		c.Close()
	}
	if err == nil {
		t.Error("it was written to")
	}
	if content, _ := os.ReadFile(victim); string(content) != "root's" {
		t.Errorf("the file of another name holds %.20q", content)
	}
}

// What SQLite is not told by us, it does not touch.
func TestTheVFSKeepsToTheFolder(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "", 40, 1)
	_, err := sqlite3.Open("file:" + h.db + "?vfs=" + vfsName)
	if !errors.Is(err, sqlite3.CANTOPEN) {
		t.Errorf("a plain path: %v", err)
	}
	d, err := Open(h.db)
	must(t, err)
	defer d.Close()
	c, err := connect(t.Context(), d.at(), sqlite3.OPEN_READONLY, "")
	must(t, err)
	defer c.Close()
	if got := c.Filename("main").String(); got != d.at() || !slices.Contains(strings.Split(got, "/"), "fd") {
		t.Errorf("SQLite works on %s; want %s", got, d.at())
	}
}
