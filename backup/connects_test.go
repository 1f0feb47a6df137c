package backup

import (
	"errors"
	"os"
	"testing"
	"time"
)

var journalModes = []string{"wal", "delete"}

// migrated is a database with a backup of its first generation, and of the second by now.
func migrated(t *testing.T, mode string, rows int) (host, place) {
	t.Helper()
	h := newHost(t)
	makeDB(t, h.db, "PRAGMA journal_mode="+mode, rows, 1)
	h.take(t, "15.1.0")
	execDB(t, h.db, "PRAGMA synchronous=off; UPDATE b SET gen = 2; PRAGMA user_version = 2")
	return h, place{path: h.db, mode: 0o640}
}

// Who connects after the first look at the database's users, and is idle, may hold no lock.
func TestNothingIsPutUnderWhoConnectedSinceTheFirstLook(t *testing.T) {
	for _, mode := range journalModes {
		for how, restore := range map[string]func(p place, copied string) error{
			"overwritten": func(p place, copied string) error {
				committed, err := p.overwrite(copied)
				if committed {
					return errors.New("committed")
				}
				return err
			},
			"replaced": func(p place, copied string) error { return p.replace(t.Context(), copied) },
		} {
			t.Run(mode+"/"+how, func(t *testing.T) {
				h, p := migrated(t, mode, 10)
				holder := start(t, "hold", h.db)
				err := restore(p, h.copied())
				if _, inUse := errors.AsType[*InUseError](err); !inUse {
					t.Errorf("%v; want an *InUseError", err)
				}
				holder.kill()
				if got := inspect(t, h.db); got != (state{10, 2}) {
					t.Errorf("the database holds %v", got)
				}
			})
		}
	}
}

// The one who connects once the backup is in the database is on what was restored.
func TestWhoConnectsToARestoredDatabaseIsNotInItsWay(t *testing.T) {
	for _, mode := range journalModes {
		t.Run(mode, func(t *testing.T) {
			h, p := migrated(t, mode, 2000)
			want, err := settled(t.Context(), h.copied(), readSchema)
			must(t, err)
			committed, err := p.overwrite(h.copied())
			if must(t, err); !committed {
				t.Fatal("nothing was committed")
			}
			writer := start(t, "write", h.db)
			for range 5 {
				must(t, p.verify(t.Context(), want))
			}
			// Files of a writer come and go: the index alone stays, and only of a log.
			hasIndex := func() bool { _, err := os.Lstat(h.db + "-shm"); return err == nil }
			if hasIndex() != (mode == "wal") {
				t.Error("it is there, or not there, as in no such mode: this test shows nothing")
			}
			must(t, p.dropSidecars())
			if hasIndex() != (mode == "wal") {
				t.Error("the files of who is connected were removed")
			}
			writer.kill()
			if got := inspect(t, h.db); got.rows < int(writer.last.Load()) || got.generation != 1 {
				t.Errorf("the database holds %v; %d rows were committed", got, writer.last.Load())
			}
		})
	}
}

// Whenever somebody connects: a restore that is in use changed nothing, and one that ended well is whole.
func TestARestoreThatSomebodyComesBetweenIsDoneOrNotBegun(t *testing.T) {
	for _, mode := range journalModes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			const rows = 4000
			h, _ := migrated(t, mode, rows)
			begin := time.Now()
			must(t, restore(t.Context(), h.db, h.dir))
			whole := time.Since(begin)
			for n := range 16 {
				execDB(t, h.db, "PRAGMA synchronous=off; UPDATE b SET gen = 2; PRAGMA user_version = 2")
				ended := make(chan error)
				go func() { ended <- restore(t.Context(), h.db, h.dir) }()
				time.Sleep(whole * time.Duration(n) / 12)
				holder := start(t, "hold", h.db)
				err := <-ended
				holder.kill()
				want := state{rows, 1}
				if _, inUse := errors.AsType[*InUseError](err); inUse {
					want.generation = 2
				} else if err != nil {
					t.Errorf("round %d: %v", n, err)
				}
				if got := inspect(t, h.db); got != want {
					t.Errorf("round %d: it ends with %v, and the database holds %v; want %v", n, err, got, want)
				}
			}
		})
	}
}
