package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// all keeps every item.
func all(string) bool { return true }

// written makes a history: items, a decision, an item that goes.
func written(t *testing.T, s *SQLite) {
	t.Helper()
	a := put(t, s, "a", "1", None)
	put(t, s, "b", "1", None)
	audit := Audit{Time: time.Unix(1_700_000_000, 0).UTC(), Who: "uid 0", What: "suspend"}
	if _, err := s.Commit(t.Context(), Change{Writes: []Write{{Key: "a", Value: []byte("2"), Based: a}}, Audit: audit}); err != nil {
		t.Fatal(err)
	}
}

func TestABackupIsOfOneMomentWhileOthersWrite(t *testing.T) {
	path := newPath(t)
	s := openStore(t, path)
	pair := func(n int, a, b Revision) Change {
		value := []byte(fmt.Sprint(n, strings.Repeat(" x", 3000)))
		return Change{Writes: []Write{{Key: "a", Value: value, Based: a}, {Key: "b", Value: value, Based: b}}}
	}
	at, err := s.Commit(t.Context(), pair(0, None, None))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			if at, err = s.Commit(t.Context(), pair(n, at[0], at[1])); err != nil {
				t.Error(err)
				return
			}
		}
	})
	to := filepath.Join(t.TempDir(), "backup.db")
	var last Revision
	for range 20 {
		facts, err := Backup(t.Context(), path, to, all)
		if err != nil {
			t.Fatal(err)
		}
		if len(facts.Items) != 2 || string(facts.Items[0].Value) != string(facts.Items[1].Value) {
			t.Fatalf("it is of two moments: %.10q and %.10q", facts.Items[0].Value, facts.Items[1].Value)
		}
		if facts.Revision < last {
			t.Errorf("revision %d after %d", facts.Revision, last)
		}
		last = facts.Revision
	}
	stop()
	writer.Wait()
	if last <= 2 {
		t.Error("nobody wrote meanwhile: the test shows nothing")
	}
	entries, err := os.ReadDir(filepath.Dir(to))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the backup is %v, %v", entries, err)
	}
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if _, err := Backup(t.Context(), path, path, nil); err == nil || !strings.Contains(err.Error(), "take its place") {
		t.Errorf("a backup over the store itself: %v", err)
	}
}

func TestARestoredStoreBeginsANewEpoch(t *testing.T) {
	path, file := newPath(t), filepath.Join(t.TempDir(), "backup.db")
	s := openStore(t, path)
	written(t, s)
	if _, err := Backup(t.Context(), path, file, nil); err != nil {
		t.Fatal(err)
	}
	lost := put(t, s, "c", "1", None)
	o := RestoreOptions{Path: path, File: file, Now: time.Unix(1_800_000_000, 0)}
	if _, err := Restore(t.Context(), o); err == nil || !strings.Contains(err.Error(), "stop the servers") {
		t.Fatalf("with a server that has it open: %v", err)
	}
	if item, err := s.Get(t.Context(), "c"); err != nil || item.Revision != lost {
		t.Fatalf("a restoration that was refused changed the store: %v, %v", item, err)
	}
	put(t, s, "d", "1", None) // it goes on
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o.Prepare = func(ctx context.Context, s Store, from Facts) error {
		_, err := s.Put(ctx, "prepared", []byte("1"), None)
		return err
	}
	r, err := Restore(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.From.Revision != 3 || r.Was.Revision != 5 || len(r.From.History) != 1 || r.From.History[0].What != "suspend" {
		t.Errorf("restored was %+v", r)
	}
	s = openStore(t, path)
	items, head, err := s.List(t.Context(), "")
	var got []string
	for _, i := range items {
		got = append(got, fmt.Sprintf("%s=%s", i.Key, i.Value))
	}
	if want := []string{"a=2", "b=1", "prepared=1"}; err != nil || !slices.Equal(got, want) || items[0].Revision != 3 {
		t.Errorf("there is %v, %v; want %v", got, err, want)
	}
	if next := put(t, s, "e", "1", None); next <= r.Was.Revision+EpochStep || head < EpochStep {
		t.Errorf("the revision is %d, and then %d: not of a new epoch", head, next)
	}
	kept, err := Inspect(t.Context(), r.Kept, nil)
	if err != nil || kept.Revision != 5 || kept.Count != 4 {
		t.Errorf("the store of before: %+v, %v", kept, err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || strings.HasPrefix(e.Name(), "store.db.before-") && strings.HasSuffix(e.Name(), "-wal") {
			t.Errorf("%s is left, %v", e.Name(), err)
		}
	}
}

// What is no backup is refused, and the store stays as it is.
func TestWhatIsNoBackupIsNotRestored(t *testing.T) {
	good := filepath.Join(t.TempDir(), "good.db")
	of := newPath(t)
	s := openStore(t, of)
	written(t, s)
	if _, err := Backup(t.Context(), of, good, nil); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	sql := func(statements string) func(t *testing.T, file string) {
		return func(t *testing.T, file string) {
			c, err := sqlite3.Open(file)
			if err == nil {
				err = errors.Join(c.Exec(statements), c.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	cut := func(n int) func(t *testing.T, file string) {
		return func(t *testing.T, file string) {
			if err := os.Truncate(file, int64(n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, file string)
		want  string
	}{
		"an empty file":         {cut(0), "no file with a store"},
		"half a file":           {cut(len(whole) / 2), "damaged"},
		"another database":      {sql("PRAGMA application_id = 7"), "another program"},
		"one of a newer schema": {sql("PRAGMA user_version = 99"), "newer version"},
		"text": {func(t *testing.T, file string) {
			if err := os.WriteFile(file, []byte(strings.Repeat("no database ", 500)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not an SQLite database"},
		"a damaged page": {func(t *testing.T, file string) {
			spoilt := slices.Clone(whole)
			for i := 4096; i < 4096+64; i++ {
				spoilt[i] ^= 0xff
			}
			if err := os.WriteFile(file, spoilt, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "damaged"},
		"a file with a log": {func(t *testing.T, file string) {
			if err := os.WriteFile(file+"-wal", []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "-wal beside it"},
	} {
		t.Run(name, func(t *testing.T) {
			file, path := filepath.Join(t.TempDir(), "backup.db"), newPath(t)
			if err := os.WriteFile(file, whole, 0o600); err != nil {
				t.Fatal(err)
			}
			tc.spoil(t, file)
			s := openStore(t, path)
			put(t, s, "mine", "1", None)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Restore(t.Context(), RestoreOptions{Path: path, File: file, Now: time.Now(), Damaged: true})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v; want %q", err, tc.want)
			}
			after, err := os.ReadFile(path)
			if err != nil || !slices.Equal(before, after) {
				t.Errorf("the store was changed (%v)", err)
			}
		})
	}
}

func TestADamagedStoreIsReplacedWhenSomebodySaysSo(t *testing.T) {
	path, file := newPath(t), filepath.Join(t.TempDir(), "backup.db")
	s := openStore(t, path)
	written(t, s)
	if _, err := Backup(t.Context(), path, file, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o := RestoreOptions{Path: path, File: file, Now: time.Now()}
	if err := os.WriteFile(path, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--damaged") {
		t.Errorf("a broken store is replaced: %v", err)
	}
	o.Damaged = true
	r, err := Restore(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if broken, err := os.ReadFile(r.Kept); string(broken) != "broken" || err != nil {
		t.Errorf("the broken one is not kept: %q, %v", broken, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if r, err = Restore(t.Context(), o); err != nil || r.Kept != "" {
		t.Errorf("where there is none: %+v, %v", r, err)
	}
	if item, err := openStore(t, path).Get(t.Context(), "a"); err != nil || string(item.Value) != "2" {
		t.Errorf("got %v, %v", item, err)
	}
}
