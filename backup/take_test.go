package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/internal/space"
)

// host is the part of a host's disk that matters here.
type host struct{ db, dir string }

func newHost(t *testing.T) host {
	root := t.TempDir()
	return host{
		db:  filepath.Join(root, "proc", "sqlite.db"),
		dir: filepath.Join(root, "versions", "15.1.0", "backup"),
	}
}

func (h host) take(t *testing.T, version string) {
	t.Helper()
	if err := take(t.Context(), h.db, TakeRequest{Dir: h.dir, Meta: metaOf(version)}); err != nil {
		t.Fatal(err)
	}
}

func (h host) copied() string { return filepath.Join(h.dir, FileName) }

func (h host) wantBackup(t *testing.T, version string, want state) {
	t.Helper()
	wantFiles(t, h.dir, "backup.yaml", "sqlite.db")
	if err := Check(t.Context(), h.dir, wantOf(version)); err != nil {
		t.Error(err)
	}
	if got := inspect(t, h.copied()); got != want {
		t.Errorf("the backup holds %v; want %v", got, want)
	}
}

// leave makes the database as its last user left it.
var leave = map[string]func(t *testing.T, db string) state{
	"closed in rollback mode": func(t *testing.T, db string) state {
		makeDB(t, db, "", 2000, 1)
		return state{2000, 1}
	},
	"closed in WAL mode": func(t *testing.T, db string) state {
		makeDB(t, db, "PRAGMA journal_mode=wal", 2000, 1)
		return state{2000, 1}
	},
	"closed with a journal that persists": func(t *testing.T, db string) state {
		makeDB(t, db, "PRAGMA journal_mode=persist", 2000, 1)
		execDB(t, db, "PRAGMA journal_mode=persist; DELETE FROM a WHERE id=2000; DELETE FROM b WHERE id=2000")
		if _, err := os.Stat(db + "-journal"); err != nil {
			t.Fatal("the journal does not persist")
		}
		return state{1999, 1}
	},
	"killed with a WAL": func(t *testing.T, db string) state {
		makeDB(t, db, "PRAGMA journal_mode=wal", 2000, 1)
		return killedWriter(t, db)
	},
	"killed with a WAL whose index is gone": func(t *testing.T, db string) state {
		makeDB(t, db, "PRAGMA journal_mode=wal", 2000, 1)
		s := killedWriter(t, db)
		if err := os.Remove(db + "-shm"); err != nil {
			t.Fatal(err)
		}
		return s
	},
	"killed with a hot journal": func(t *testing.T, db string) state {
		makeDB(t, db, "", 2000, 1)
		start(t, "spill", db).kill()
		if hot, err := unfinished(db + "-journal"); !hot || err != nil {
			t.Fatal("the journal is not hot")
		}
		return state{2000, 1}
	},
	"empty": func(t *testing.T, db string) state {
		if err := os.MkdirAll(filepath.Dir(db), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(db, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return state{}
	},
}

// killedWriter kills a writer in the middle of its work. The last transaction
// may have been committed before it could say so, so the true number is read.
func killedWriter(t *testing.T, db string) state {
	p := start(t, "write", db)
	for p.last.Load() < 2050 {
		time.Sleep(time.Millisecond)
	}
	p.kill()
	s := inspect(t, db)
	if s.rows < int(p.last.Load()) {
		t.Fatalf("%d rows after %d were committed", s.rows, p.last.Load())
	}
	if info, err := os.Stat(db + "-wal"); err == nil && info.Size() == 0 {
		t.Fatal("the WAL is empty")
	}
	return s
}

func TestABackupOfAStoppedAgentIsWholeAndLeavesItsFolderAlone(t *testing.T) {
	for name, prepare := range leave {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			want := prepare(t, h.db)
			before := tree(t, filepath.Dir(h.db))
			if err := probe(t.Context(), h.db); err != nil {
				t.Errorf("Probe: %v", err)
			}
			wantSameTree(t, filepath.Dir(h.db), before)
			if err := take(t.Context(), h.db, TakeRequest{Dir: h.dir, Meta: metaOf("15.1.0"), Stopped: true}); err != nil {
				t.Fatal(err)
			}
			wantSameTree(t, filepath.Dir(h.db), before)
			if name == "empty" {
				if info, err := os.Stat(h.copied()); err != nil || info.Size() != 0 {
					t.Errorf("the copy of an empty database: %v, %v", info, err)
				}
				if err := Check(t.Context(), h.dir, wantOf("15.1.0")); err != nil {
					t.Error(err)
				}
				return
			}
			h.wantBackup(t, "15.1.0", want)
		})
	}
}

func TestABackupIsPrivateAndKeepsTheOwner(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	h := newHost(t)
	makeDB(t, h.db, "PRAGMA journal_mode=wal", 10, 1)
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 1234, 4321
		if err := os.Chown(h.db, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	h.take(t, "15.1.0")
	for path, mode := range map[string]os.FileMode{h.dir: os.ModeDir | 0o700, h.copied(): 0o600, filepath.Join(h.dir, metaName): 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != mode {
			t.Errorf("%s has mode %v; want %v", path, info.Mode(), mode)
		}
	}
	info, _ := os.Stat(h.copied())
	if owner := info.Sys().(*syscall.Stat_t); int(owner.Uid) != uid || int(owner.Gid) != gid {
		t.Errorf("the backup belongs to %d:%d; want %d:%d", owner.Uid, owner.Gid, uid, gid)
	}
}

func TestANewBackupReplacesTheOldOneWithAllItsLeftovers(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "PRAGMA journal_mode=wal", 100, 1)
	h.take(t, "15.1.0")
	for _, leftover := range []string{"sqlite.db-wal", "sqlite.db-journal", ".tmp-sqlite.db-KILLEDXX", ".tmp-sqlite.db-KILLEDXX-journal"} {
		if err := os.WriteFile(filepath.Join(h.dir, leftover), []byte("left"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	execDB(t, h.db, "UPDATE b SET gen = 2; PRAGMA user_version = 2")
	h.take(t, "15.2.0")
	h.wantBackup(t, "15.2.0", state{100, 2})
}

func TestABackupOfAStoppedAgentIsRefusedWhileAProcessHasTheDatabaseOpen(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "", 10, 1)
	p := start(t, "hold", h.db)
	err := take(t.Context(), h.db, TakeRequest{Dir: h.dir, Meta: metaOf("15.1.0"), Stopped: true})
	use, ok := errors.AsType[*InUseError](err)
	if !ok || len(use.PIDs) != 1 || use.PIDs[0] != p.cmd.Process.Pid {
		t.Errorf("Take: %v; want an *InUseError with process %d", err, p.cmd.Process.Pid)
	}
	h.take(t, "15.1.0") // running is fine when it need not be stopped
}

func TestABackupThatIsCancelledLeavesTheOldOne(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "PRAGMA journal_mode=wal", 100, 1)
	h.take(t, "15.1.0")
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if err := take(ctx, h.db, TakeRequest{Dir: h.dir, Meta: metaOf("15.1.1")}); !errors.Is(err, enough) {
		t.Errorf("Take: %v; want the cause of the cancellation", err)
	}
	h.wantBackup(t, "15.1.0", state{100, 1})
}

func TestProgressIsToldOnALargeDatabaseAndCanStopIt(t *testing.T) {
	if testing.Short() {
		t.Skip("it fills databases of many pages")
	}
	for name, mode := range map[string]string{"through SQLite": "delete", "at rest": "wal"} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			makeDB(t, h.db, "PRAGMA journal_mode="+mode, 10, 1)
			execDB(t, h.db, "PRAGMA synchronous=off; CREATE TABLE large AS SELECT zeroblob(110000000) AS data")
			ctx, cancel := context.WithCancelCause(t.Context())
			enough := errors.New("enough")
			var last, calls, size int64
			err := take(ctx, h.db, TakeRequest{Dir: h.dir, Meta: metaOf("15.1.0"), Progress: func(done, total int64) {
				if done <= last || done > total {
					t.Errorf("%d bytes of %d after %d", done, total, last)
				}
				last, size = done, total
				if calls++; calls == 5 {
					cancel(enough)
				}
			}})
			if !errors.Is(err, enough) || calls != 5 || size < 110000000 {
				t.Errorf("Take: %v after %d calls of %d bytes; want it stopped at the fifth", err, calls, size)
			}
			if _, err := os.Stat(h.dir); err == nil {
				t.Error("a folder is left")
			}
		})
	}
}

func TestTooLittleSpaceIsSeenBeforeAndOnTheWay(t *testing.T) {
	small := smallDisk(t, 24<<20)
	h := newHost(t)
	makeDB(t, h.db, "", 10, 1)
	execDB(t, h.db, "PRAGMA synchronous=off; CREATE TABLE large AS SELECT zeroblob(14000000) AS data")
	h.dir = filepath.Join(small, "backup")
	must(t, os.WriteFile(filepath.Join(small, "other"), make([]byte, 4<<20), 0o600))

	err := take(t.Context(), h.db, TakeRequest{Dir: h.dir, Meta: metaOf("15.1.0")})
	full, ok := errors.AsType[*space.Error](err)
	if !ok || full.Need < 14000000 || full.Free > 20<<20 || full.Path != h.dir {
		t.Errorf("Take: %v; want a *space.Error with need and free space", err)
	}
	wantFiles(t, small, "other")

	// Room for the copy, but somebody else takes it meanwhile.
	must(t, os.Remove(filepath.Join(small, "other")))
	temp := filepath.Join(small, "copy")
	f, err := os.Create(temp)
	must(t, err)
	defer f.Close()
	must(t, os.WriteFile(filepath.Join(small, "other"), make([]byte, 14<<20), 0o600))
	d, err := Open(h.db)
	must(t, err)
	defer d.Close()
	src, err := d.source()
	must(t, err)
	_, err = fill(t.Context(), src, f, nil)
	if _, ok := errors.AsType[*space.Error](explain(t.Context(), err, h.db, small)); !ok {
		t.Errorf("the disk filled up: %v; want a *space.Error", err)
	}
}

func TestSizeCountsTheWAL(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "PRAGMA journal_mode=wal", 10, 1)
	killedWriter(t, h.db)
	var want int64
	for _, suffix := range []string{"", "-wal"} {
		info, err := os.Stat(h.db + suffix)
		must(t, err)
		want += info.Size()
	}
	if got, err := sizeAt(h.db); got != want || err != nil {
		t.Errorf("Size: %d, %v; want %d", got, err, want)
	}
}

// smallDisk mounts an own file system of the given size.
func smallDisk(t *testing.T, size int64) string {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("mounting needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func containsAny(s, alternatives string) bool {
	for a := range strings.SplitSeq(alternatives, "|") {
		if strings.Contains(s, a) {
			return true
		}
	}
	return false
}
