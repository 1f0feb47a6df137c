package backup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestADamagedDatabaseIsKeptAsideAsItIs(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "PRAGMA journal_mode=wal", 2000, 1)
	killedWriter(t, h.db)
	must(t, os.Chmod(h.db, 0o640))
	dir := filepath.Dir(h.db)
	f, err := os.OpenFile(h.db, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte("garbage"), 0)
	must(t, err)
	must(t, f.Close())
	before := tree(t, dir)

	to, err := setAsideAt(t.Context(), h.db, noon)
	must(t, err)
	if want := h.db + ".damaged-20240506T120000Z"; to != want {
		t.Errorf("it is at %s; want %s", to, want)
	}
	after := tree(t, dir)
	for name, what := range before {
		aside := strings.Replace(name, FileName, filepath.Base(to), 1)
		if after[name] != what || after[aside] != what {
			t.Errorf("%s was %.80s, is %.80s, aside %.80s", name, what, after[name], after[aside])
		}
	}
	// Cut off and begun again.
	must(t, os.WriteFile(to, []byte("half"), 0o600))
	again, err := setAsideAt(t.Context(), h.db, noon)
	must(t, err)
	if data, _ := os.ReadFile(again); string(data[:7]) != "garbage" || again != to {
		t.Errorf("the second copy at %s begins with %.7s", again, data)
	}
}

func TestADatabaseInUseIsNotKeptAside(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "", 100, 1)
	start(t, "write", h.db)
	_, err := setAsideAt(t.Context(), h.db, noon)
	if _, inUse := errors.AsType[*InUseError](err); !inUse {
		t.Errorf("SetAside: %v; want that it is in use", err)
	}
	if _, err := setAsideAt(t.Context(), h.db+".none", noon); !errors.Is(err, ErrNoDatabase) {
		t.Errorf("SetAside of nothing: %v", err)
	}
}

func TestAnOutdatedBackupIsNotCompleteAnyMore(t *testing.T) {
	h := newHost(t)
	must(t, Outdate(h.dir)) // nothing there is fine
	makeDB(t, h.db, "", 100, 1)
	h.take(t, "15.1.0")
	must(t, Outdate(h.dir))
	err := Check(t.Context(), h.dir, wantOf("15.1.0"))
	if invalid, ok := errors.AsType[*InvalidError](err); !ok || invalid.Reason != Incomplete {
		t.Errorf("Check: %v; want it incomplete", err)
	}
	if _, err := os.Stat(h.copied()); err != nil {
		t.Errorf("the database itself: %v", err)
	}
}

func TestInspectFindsWhatProbeOverlooks(t *testing.T) {
	for name, prepare := range leave {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			prepare(t, h.db)
			before := tree(t, filepath.Dir(h.db))
			if err := inspectAt(t.Context(), h.db); err != nil {
				t.Errorf("a sound database: %v", err)
			}
			wantSameTree(t, filepath.Dir(h.db), before)
		})
	}
	for _, mode := range []string{"wal", "delete"} {
		t.Run("damaged inside, "+mode, func(t *testing.T) {
			h := newHost(t)
			makeDB(t, h.db, "PRAGMA journal_mode="+mode, 2000, 1)
			flipAt(t, h.db, 2*4096)
			if err := probe(t.Context(), h.db); err != nil {
				t.Fatalf("Probe: %v", err)
			}
			before := tree(t, filepath.Dir(h.db))
			err := inspectAt(t.Context(), h.db)
			if corrupt, ok := errors.AsType[*CorruptError](err); !ok || corrupt.Path != h.db {
				t.Errorf("Inspect: %v; want that %s is damaged", err, h.db)
			}
			wantSameTree(t, filepath.Dir(h.db), before)
		})
	}
	if err := inspectAt(t.Context(), filepath.Join(t.TempDir(), FileName)); !errors.Is(err, ErrNoDatabase) {
		t.Errorf("Inspect of nothing: %v", err)
	}
}

func flipAt(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	must(t, err)
	b[0] ^= 0xff
	_, err = f.WriteAt(b[:], at)
	must(t, err)
}
