package backup

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// killSometime lets the process run for a random part of the time that it
// takes, then kills it. It reports whether it had ended by itself.
func killSometime(t *testing.T, p *process, whole time.Duration) (ended bool) {
	t.Helper()
	select {
	case <-p.done:
		ended = true
	case <-time.After(rand.N(whole + whole/4)):
	}
	p.kill()
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
	outcomes := map[string]int{}
	h := newHost(t)
	makeDB(t, h.db, "PRAGMA journal_mode=wal", 10000, 1)
	whole := duration(t, "take", h.db, h.dir, "15.0.0")
	for generation := 2; generation < 42; generation++ {
		execDB(t, h.db, "PRAGMA synchronous=off; UPDATE b SET gen = (SELECT max(gen) + 1 FROM b)")
		before, beforeErr := Read(h.dir)
		// The version tells the generation, so that one beside the other's
		// database would be seen.
		version := "15.0." + string(rune('a'+generation%26)) // no need for it to be one
		p := start(t, "take", h.db, h.dir, version)
		ended := killSometime(t, p, whole)

		after, err := Read(h.dir)
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

func TestARestoreKilledAnywhereLeavesAllOldOrAllNewAndCanBeRepeated(t *testing.T) {
	tests := map[string]func(t *testing.T, db string){
		"in rollback mode": func(t *testing.T, db string) {},
		"in WAL mode":      func(t *testing.T, db string) { execDB(t, db, "PRAGMA journal_mode=wal") },
		"with a replaced file, WAL left": func(t *testing.T, db string) {
			execDB(t, db, "PRAGMA page_size=8192; VACUUM; PRAGMA journal_mode=wal")
			start(t, "hold", db).kill()
			c, err := openWriter(db)
			must(t, err)
			must(t, c.Exec("PRAGMA synchronous=off; UPDATE b SET gen = 3; PRAGMA user_version = 3"))
			// Copied as a kill would leave it.
			for _, suffix := range []string{"", "-wal", "-shm"} {
				data, err := os.ReadFile(db + suffix)
				must(t, err)
				must(t, os.WriteFile(db+suffix+".left", data, 0o640))
			}
			must(t, c.Close())
			for _, suffix := range []string{"", "-wal", "-shm"} {
				must(t, os.Rename(db+suffix+".left", db+suffix))
			}
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			makeDB(t, h.db, "", 4000, 1)
			h.take(t, "15.1.0")
			must(t, os.Remove(h.db))
			makeDB(t, h.db, "", 6000, 2)
			prepare(t, h.db)
			old := inspect(t, h.db)
			spoiled := map[string][]byte{}
			for _, suffix := range append([]string{""}, sidecars[:]...) {
				if data, err := os.ReadFile(h.db + suffix); err == nil {
					spoiled[suffix] = data
				}
			}
			whole := duration(t, "restore", h.dir, h.db)

			outcomes := map[state]int{}
			for range 15 {
				must(t, os.RemoveAll(filepath.Dir(h.db)))
				must(t, os.Mkdir(filepath.Dir(h.db), 0o700))
				for suffix, data := range spoiled {
					must(t, os.WriteFile(h.db+suffix, data, 0o640))
				}
				killSometime(t, start(t, "restore", h.dir, h.db), whole)
				got := inspect(t, h.db)
				if got != old && got != (state{4000, 1}) {
					t.Fatalf("the database holds %v; want %v or the backup", got, old)
				}
				outcomes[got]++
				must(t, Restore(t.Context(), RestoreRequest{Dir: h.dir, Target: h.db}))
				if got := inspect(t, h.db); got != (state{4000, 1}) {
					t.Fatalf("the second attempt left %v", got)
				}
				wantFiles(t, filepath.Dir(h.db), "sqlite.db")
			}
			t.Logf("outcomes: %v", outcomes)
		})
	}
}
