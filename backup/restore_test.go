package backup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"teleport-update/internal/space"
)

// later makes the database what a newer version leaves: other rows, more of
// them, a migrated schema.
func later(t *testing.T, db string) {
	execDB(t, db, `PRAGMA synchronous=off; UPDATE b SET gen = 2; PRAGMA user_version = 2; CREATE TABLE added (x);
		WITH RECURSIVE n(i) AS (SELECT 2001 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO a SELECT i, randomblob(300) FROM n;
		INSERT INTO b SELECT id, 2 FROM a WHERE id > 2000; DELETE FROM a WHERE id > 2900; DELETE FROM b WHERE id > 2900`)
}

func TestARestoreBringsTheBackupBackWhateverLiesThere(t *testing.T) {
	const migrated = "what a newer version left, "
	tests := map[string]struct {
		mode   string // journal mode at the backup
		spoil  func(t *testing.T, db string)
		copied bool // the file was replaced, not overwritten
	}{
		migrated + "in rollback mode": {"delete", later, false},
		migrated + "in WAL mode":      {"wal", later, false},
		migrated + "changed from rollback to WAL": {"delete", func(t *testing.T, db string) {
			execDB(t, db, "PRAGMA journal_mode=wal")
			later(t, db)
		}, false},
		migrated + "changed from WAL to rollback": {"wal", func(t *testing.T, db string) {
			execDB(t, db, "PRAGMA journal_mode=delete")
			later(t, db)
		}, false},
		"a WAL of a killed process": {"wal", func(t *testing.T, db string) {
			later(t, db)
			start(t, "write", db).kill()
			if info, err := os.Stat(db + "-wal"); err != nil || info.Size() == 0 {
				t.Fatal("there is no WAL")
			}
		}, false},
		"a WAL of a killed process without its index": {"wal", func(t *testing.T, db string) {
			start(t, "write", db).kill()
			must(t, os.Remove(db+"-shm"))
		}, false},
		"a hot journal of a killed process": {"delete", func(t *testing.T, db string) {
			later(t, db)
			start(t, "spill", db).kill()
		}, false},
		"another page size in rollback mode": {"delete", func(t *testing.T, db string) {
			execDB(t, db, "PRAGMA page_size=8192; VACUUM")
			later(t, db)
		}, false},
		"another page size in WAL mode": {"wal", func(t *testing.T, db string) {
			execDB(t, db, "PRAGMA journal_mode=delete; PRAGMA page_size=8192; VACUUM; PRAGMA journal_mode=wal")
			start(t, "write", db).kill()
		}, true},
		"garbage": {"delete", func(t *testing.T, db string) {
			must(t, os.WriteFile(db, []byte(strings.Repeat("garbage", 1000)), 0o640))
		}, true},
		"garbage with stale sidecars": {"wal", func(t *testing.T, db string) {
			later(t, db)
			start(t, "write", db).kill()
			must(t, os.WriteFile(db, []byte(strings.Repeat("garbage", 1000)), 0o640))
		}, true},
		"a damaged schema": {"delete", func(t *testing.T, db string) {
			f, err := os.OpenFile(db, os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteAt([]byte(strings.Repeat("\xee", 3000)), 100)
			must(t, err)
			must(t, f.Close())
		}, true},
		"a file cut short": {"wal", func(t *testing.T, db string) { must(t, os.Truncate(db, 3*4096+17)) }, true},
		"an empty file":    {"wal", func(t *testing.T, db string) { must(t, os.Truncate(db, 0)) }, false},
		"nothing":          {"wal", func(t *testing.T, db string) { must(t, os.Remove(db)) }, true},
		"sidecars of nobody": {"wal", func(t *testing.T, db string) {
			start(t, "write", db).kill()
			must(t, os.Remove(db))
		}, true},
		"what an interrupted restore left": {"wal", func(t *testing.T, db string) {
			must(t, os.WriteFile(db, []byte("garbage"), 0o640))
			must(t, os.WriteFile(filepath.Join(filepath.Dir(db), ".tmp-sqlite.db-HALFHALF"), []byte("half"), 0o600))
		}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			makeDB(t, h.db, "PRAGMA journal_mode="+tt.mode, 2000, 1)
			own := struct{ uid, gid int }{os.Getuid(), os.Getgid()}
			if own.uid == 0 {
				own.uid, own.gid = 1234, 4321
				must(t, os.Chown(h.db, own.uid, own.gid))
				must(t, os.Chown(filepath.Dir(h.db), own.uid, own.gid))
			}
			h.take(t, "15.1.0")
			kept := tree(t, h.dir)
			tt.spoil(t, h.db)
			before, _ := os.Stat(h.db)

			must(t, restore(t.Context(), h.db, h.dir))

			if got, want := inspect(t, h.db), (state{2000, 1}); got != want {
				t.Errorf("the database holds %v; want %v", got, want)
			}
			if same, err := sameSchema(t.Context(), h.db, h.dir); !same || err != nil {
				t.Errorf("SameSchema: %v, %v", same, err)
			}
			wantFiles(t, filepath.Dir(h.db), "sqlite.db")
			wantSameTree(t, h.dir, kept)
			after, err := os.Stat(h.db)
			must(t, err)
			mode := os.FileMode(0o640)
			if before == nil {
				mode = 0o600
			} else if replaced := !os.SameFile(before, after); replaced != tt.copied {
				t.Errorf("the file was replaced: %v; want %v", replaced, tt.copied)
			}
			if after.Mode() != mode {
				t.Errorf("mode %v; want %v", after.Mode(), mode)
			}
			if owner := after.Sys().(*syscall.Stat_t); int(owner.Uid) != own.uid || int(owner.Gid) != own.gid {
				t.Errorf("the database belongs to %d:%d; want %v", owner.Uid, owner.Gid, own)
			}
			execDB(t, h.db, "INSERT INTO a VALUES (5000, 'the agent goes on')")
		})
	}
}

func TestARestoredEmptyDatabaseIsEmpty(t *testing.T) {
	h := newHost(t)
	leave["empty"](t, h.db)
	h.take(t, "15.1.0")
	makeDB(t, h.db, "PRAGMA journal_mode=wal", 100, 2)
	must(t, restore(t.Context(), h.db, h.dir))
	if same, err := sameSchema(t.Context(), h.db, h.dir); !same || err != nil {
		t.Errorf("SameSchema: %v, %v; want true", same, err)
	}
}

func TestARestoreIsRefusedWhileAnyProcessHasTheDatabaseOpen(t *testing.T) {
	for _, mode := range []string{"wal", "delete"} { // idle, the second holds no lock
		t.Run(mode, func(t *testing.T) {
			h := newHost(t)
			makeDB(t, h.db, "PRAGMA journal_mode="+mode, 10, 1)
			h.take(t, "15.1.0")
			execDB(t, h.db, "UPDATE b SET gen = 2; PRAGMA user_version = 2")
			first, second := start(t, "hold", h.db), start(t, "hold", h.db)
			before := tree(t, filepath.Dir(h.db))
			err := restore(t.Context(), h.db, h.dir)
			use, ok := errors.AsType[*InUseError](err)
			if !ok || len(use.PIDs) != 2 {
				t.Fatalf("Restore: %v; want an *InUseError with two processes", err)
			}
			for _, p := range []*process{first, second} {
				if !strings.Contains(err.Error(), fmt.Sprint(p.cmd.Process.Pid)) {
					t.Errorf("Restore: %v; want it to name process %d", err, p.cmd.Process.Pid)
				}
			}
			wantSameTree(t, filepath.Dir(h.db), before)
			first.kill()
			second.kill()
			must(t, restore(t.Context(), h.db, h.dir))
			if got := inspect(t, h.db); got != (state{10, 1}) {
				t.Errorf("the database holds %v", got)
			}
		})
	}
}

// What is no file in the database's place is seen without a look that needs the agent
// stopped.
func TestWhatIsInTheDatabasesPlaceIsSeenBeforeARestore(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a link":   func(path string) error { return os.Symlink("nowhere", path) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			makeDB(t, h.db, "", 40, 1)
			h.take(t, "15.1.0")
			d, err := Open(h.db)
			must(t, err)
			defer d.Close()
			must(t, d.CanRestore(h.dir, nil))
			must(t, errors.Join(os.Remove(h.db), put(h.db)))
			if err := d.CanRestore(h.dir, nil); err == nil {
				t.Error("it is said that the database can go back")
			}
			must(t, os.Remove(h.db))
			must(t, d.CanRestore(h.dir, nil))
		})
	}
}

func TestAnIncompleteOrDamagedBackupIsNeverRestored(t *testing.T) {
	tests := map[string]func(t *testing.T, dir string){
		"no backup.yaml": func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, metaName))) },
		"no database":    func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, FileName))) },
		"no database but garbage": func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, FileName), []byte("garbage"), 0o600))
		},
		"a row damaged": func(t *testing.T, dir string) {
			f, err := os.OpenFile(filepath.Join(dir, FileName), os.O_WRONLY, 0)
			must(t, err)
			defer f.Close()
			info, err := f.Stat()
			must(t, err)
			_, err = f.WriteAt([]byte("?"), info.Size()/2)
			must(t, err)
		},
		"no folder": func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			makeDB(t, h.db, "", 10, 1)
			h.take(t, "15.1.0")
			spoil(t, h.dir)
			before := tree(t, filepath.Dir(h.db))
			err := restore(t.Context(), h.db, h.dir)
			if _, ok := errors.AsType[*InvalidError](err); !ok {
				t.Errorf("Restore: %v; want an *InvalidError", err)
			}
			wantSameTree(t, filepath.Dir(h.db), before)
		})
	}
}

func TestARestoreWithoutRoomChangesNothing(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "", 20000, 1)
	h.take(t, "15.1.0")
	small := smallDisk(t, 12<<20)
	h.db = filepath.Join(small, "sqlite.db")
	makeDB(t, h.db, "", 10, 2)
	before := tree(t, small)
	err := restore(t.Context(), h.db, h.dir)
	if full, ok := errors.AsType[*space.Error](err); !ok || full.Path != small {
		t.Errorf("Restore: %v; want a *space.Error", err)
	}
	wantSameTree(t, small, before)
}

func TestARestoreWithRoomForACopyOnlyReplacesTheFile(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "", 40000, 1)
	h.take(t, "15.1.0")
	info, err := os.Stat(h.copied())
	must(t, err)
	// Not for a WAL with all pages and for the file growing to that size.
	small := smallDisk(t, info.Size()+spaceMargin+2<<20)
	h.db = filepath.Join(small, "sqlite.db")
	makeDB(t, h.db, "PRAGMA journal_mode=wal", 1000, 2)
	before, err := os.Stat(h.db)
	must(t, err)
	must(t, restore(t.Context(), h.db, h.dir))
	if got := inspect(t, h.db); got != (state{40000, 1}) {
		t.Errorf("the database holds %v", got)
	}
	after, err := os.Stat(h.db)
	must(t, err)
	if os.SameFile(before, after) {
		t.Error("the file was overwritten")
	}
	wantFiles(t, small, "sqlite.db")
}

func TestAResultThatIsNotTheBackupIsNoticed(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "", 2000, 1)
	h.take(t, "15.1.0")
	want, err := settled(t.Context(), h.copied(), readSchema)
	must(t, err)
	result := place{path: h.db}
	must(t, result.verify(t.Context(), want))
	later(t, h.db)
	if err := result.verify(t.Context(), want); err == nil {
		t.Error("another schema passes")
	}
	must(t, os.WriteFile(h.db, []byte("garbage"), 0o600))
	if err := result.verify(t.Context(), want); err == nil {
		t.Error("garbage passes")
	}
}
