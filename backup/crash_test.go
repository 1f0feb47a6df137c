package backup

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"teleport-update/internal/durable"
)

// killSometime lets the process run for a random part of the time that it
// takes, then has it ended. It reports whether it had ended by itself.
func killSometime(t *testing.T, p *process, whole time.Duration, kill func()) (ended bool) {
	t.Helper()
	select {
	case <-p.done:
		ended = true
	case <-time.After(rand.N(whole + whole/4)):
	}
	kill()
	return ended
}

// duration runs the process to its end once.
func duration(t *testing.T, role string, args ...string) time.Duration {
	t.Helper()
	p := start(t, role, args...)
	begin := time.Now()
	if err := p.wait(); err != nil {
		t.Fatal(err)
	}
	return time.Since(begin)
}

func TestABackupKilledAnywhereLeavesTheOldOneOrNoneOrTheNew(t *testing.T) {
	t.Parallel()
	outcomes := map[string]int{}
	h := newHost(t)
	makeDB(t, h.db, "PRAGMA journal_mode=wal", 4000, 1)
	whole := duration(t, "take", h.db, h.dir, "15.0.0")
	for generation := 2; generation < 18; generation++ {
		execDB(t, h.db, "PRAGMA synchronous=off; UPDATE b SET gen = (SELECT max(gen) + 1 FROM b)")
		before, beforeErr := read(h.dir)
		// The version tells the generation, so that one beside the other's
		// database would be seen.
		version := fmt.Sprintf("15.0.%d", generation)
		p := start(t, "take", h.db, h.dir, version)
		ended := killSometime(t, p, whole, p.kill)

		after, err := read(h.dir)
		switch {
		case err != nil:
			outcomes["none"]++
			if ended {
				t.Fatalf("a whole run left nothing: %v", err)
			}
		case after.Version == version:
			outcomes["new"]++
			if err := Check(t.Context(), h.dir, wantOf(version)); err != nil {
				t.Fatal(err)
			}
			if got := generationOf(t, h.copied()); got != generation {
				t.Fatalf("the new backup.yaml lies beside generation %d, not %d", got, generation)
			}
		case beforeErr == nil && after.Version == before.Version:
			outcomes["old"]++
			if err := Check(t.Context(), h.dir, wantOf(before.Version)); err != nil {
				t.Fatal(err)
			}
			if got := generationOf(t, h.copied()); got >= generation {
				t.Fatalf("the old backup.yaml lies beside generation %d", got)
			}
		default:
			t.Fatalf("backup.yaml is of %s", after.Version)
		}
		inspect(t, h.db)
	}
	t.Logf("outcomes: %v", outcomes)
	h.take(t, "16.0.0")
	wantFiles(t, h.dir, "backup.yaml", "sqlite.db")
}

func generationOf(t *testing.T, path string) int {
	t.Helper()
	c, err := openWriter(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n, err := scalar(c, "SELECT max(gen) FROM b")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// spoilt makes the database what a newer version left, in each of the ways that
// a restore takes, and says what it holds.
var spoilt = map[string]func(t *testing.T, db string) state{
	"over a database in rollback mode": func(t *testing.T, db string) state {
		os.Remove(db)
		makeDB(t, db, "", 6000, 2)
		return state{6000, 2}
	},
	"over a database in WAL mode": func(t *testing.T, db string) state {
		os.Remove(db)
		makeDB(t, db, "PRAGMA journal_mode=wal", 6000, 2)
		return state{6000, 2}
	},
	"in the place of a file with a WAL": func(t *testing.T, db string) state {
		os.Remove(db)
		makeDB(t, db, "PRAGMA page_size=8192; PRAGMA journal_mode=wal", 6000, 2)
		// Not checkpointed, because somebody still reads.
		c, err := openWriter(db)
		must(t, err)
		defer c.Close()
		must(t, c.Exec("BEGIN; SELECT count(*) FROM a"))
		p := start(t, "migrate", db)
		must(t, p.wait())
		for _, suffix := range []string{"", "-wal", "-shm"} {
			data, err := os.ReadFile(db + suffix)
			must(t, err)
			must(t, os.WriteFile(db+suffix+".left", data, 0o640))
		}
		must(t, c.Close())
		for _, suffix := range []string{"", "-wal", "-shm"} {
			must(t, os.Rename(db+suffix+".left", db+suffix))
		}
		return state{6000, 3}
	},
}

func TestARestoreKilledAnywhereLeavesAllOldOrAllNewAndCanBeRepeated(t *testing.T) {
	for name, prepare := range spoilt {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			makeDB(t, h.db, "", 4000, 1)
			h.take(t, "15.1.0")
			old := prepare(t, h.db)
			if got := inspect(t, h.db); got != old {
				t.Fatalf("the database holds %v; want %v", got, old)
			}
			whole := duration(t, "restore", h.dir, h.db)
			outcomes := map[state]int{}
			for range 5 {
				must(t, os.RemoveAll(filepath.Dir(h.db)))
				prepare(t, h.db)
				giveAway(t, h.db)
				p := start(t, "restore", h.dir, h.db)
				killSometime(t, p, whole, p.kill)
				wantOwner(t, h.db)
				got := inspect(t, h.db)
				if got != old && got != (state{4000, 1}) {
					t.Fatalf("the database holds %v; want %v or the backup", got, old)
				}
				outcomes[got]++
				must(t, restore(t.Context(), h.db, h.dir))
				if got := inspect(t, h.db); got != (state{4000, 1}) {
					t.Fatalf("the second attempt left %v", got)
				}
				wantFiles(t, filepath.Dir(h.db), "sqlite.db")
			}
			t.Logf("outcomes: %v", outcomes)
		})
	}
}

// giveAway makes the database and what lies beside it another user's.
func giveAway(t *testing.T, db string) {
	if os.Getuid() != 0 {
		return
	}
	entries, err := os.ReadDir(filepath.Dir(db))
	must(t, err)
	for _, e := range entries {
		must(t, os.Chown(filepath.Join(filepath.Dir(db), e.Name()), 1234, 1234))
	}
}

// wantOwner makes sure that it is still the other user's: SQLite, run by that
// user, has to open the sidecars. A copy that was not finished does not count,
// nor an empty file, caught between being made and being given away.
func wantOwner(t *testing.T, db string) {
	if os.Getuid() != 0 {
		return
	}
	entries, err := os.ReadDir(filepath.Dir(db))
	must(t, err)
	for _, e := range entries {
		info, err := e.Info()
		must(t, err)
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid != 1234 && info.Size() > 0 && !durable.IsTemp(e.Name()) {
			t.Errorf("%s belongs to %d", e.Name(), uid)
		}
	}
}

func TestAFileThatIsReplacedIsFirstMadeWholeWithoutItsWAL(t *testing.T) {
	// A crash may come after the WAL went and before the new file came.
	h := newHost(t)
	old := spoilt["in the place of a file with a WAL"](t, h.db)
	must(t, os.Remove(h.db+"-shm"))
	place{path: h.db}.fold()
	wantFiles(t, filepath.Dir(h.db), "sqlite.db")
	if got := inspect(t, h.db); got != old {
		t.Errorf("the file alone holds %v; want %v", got, old)
	}
}
