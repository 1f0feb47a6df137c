package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// fill makes so many changes, fewer than SQLite keeps in the log.
func fill(t *testing.T, s *SQLite, name string, n int) {
	t.Helper()
	for i := range n {
		put(t, s, fmt.Sprintf("%s/%d", name, i), name, None)
	}
}

// copyOver writes a file's content into another one, as cp does.
func copyOver(t *testing.T, from, to string) {
	t.Helper()
	time.Sleep(10 * time.Millisecond) // a clock of files is coarse
	writeFile(t, to, string(content(t, from)))
}

// killed copies the files of a store as a killed server leaves them.
func killed(t *testing.T, path string) string {
	t.Helper()
	to := newPath(t)
	if err := makeFolder(filepath.Dir(to)); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal"} {
		writeFile(t, to+suffix, string(content(t, path+suffix)))
	}
	return to
}

// SQLite would go on with the log of the file before, and mix its pages with those of the copy.
func TestACopyOverTheStoreIsNamed(t *testing.T) {
	copies := map[string]func(t *testing.T, path, to string, s *SQLite) *SQLite{
		"of a stopped server": func(t *testing.T, path, to string, s *SQLite) *SQLite {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			copyOver(t, path, to)
			return openStore(t, path)
		},
		"that backup made": func(t *testing.T, path, to string, s *SQLite) *SQLite {
			if _, err := Backup(t.Context(), path, to, nil); err != nil {
				t.Fatal(err)
			}
			return s
		},
		"of the file alone, which a purge followed": func(t *testing.T, path, to string, s *SQLite) *SQLite {
			copyOver(t, path, to)
			if _, err := s.Purge(t.Context(), time.Now()); err != nil {
				t.Fatal(err)
			}
			return s
		},
		"of another store, which is newer": func(t *testing.T, _, to string, s *SQLite) *SQLite {
			other := openStore(t, newPath(t))
			fill(t, other, "other", 60)
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
			copyOver(t, other.path, to)
			return s
		},
	}
	for name, makeCopy := range copies {
		t.Run(name, func(t *testing.T) {
			path, to := newPath(t), filepath.Join(t.TempDir(), "copy.db")
			s := openStore(t, path)
			fill(t, s, "before", 5)
			s = makeCopy(t, path, to, s)
			fill(t, s, "after", 20)
			left := killed(t, path)
			for when, overwritten := range map[string]func() (string, error){
				"while the server runs": func() (string, error) {
					copyOver(t, to, path)
					_, err := s.Put(t.Context(), "after/0", []byte("x"), None)
					return path, errors.Join(err, s.Close())
				},
				"after the server was killed": func() (string, error) {
					copyOver(t, to, left)
					_, err := OpenSQLite(t.Context(), left)
					return left, err
				},
			} {
				at, err := overwritten()
				if !errors.Is(err, errOverwritten) {
					t.Errorf("copied over %s: %v", when, err)
					continue
				}
				if !bytes.Equal(content(t, at), content(t, to)) {
					t.Errorf("copied over %s: the copy was written to", when)
				}
				// What the message says.
				for _, suffix := range sidecars {
					os.Remove(at + suffix)
				}
				if err := os.Rename(at, at+".copy"); err != nil {
					t.Fatal(err)
				}
				if _, err := Restore(t.Context(), RestoreOptions{Path: at, File: at + ".copy", Now: time.Now()}); err != nil {
					t.Error(err)
				}
				again := openStore(t, at)
				if _, err := again.Get(t.Context(), "after/0"); !errors.Is(err, ErrNotFound) {
					t.Errorf("copied over %s: %v", when, err)
				}
			}
		})
	}
}

// Whatever servers do with their own store, also one that is killed at any time, is no copy.
func TestNoChangeOfServersIsACopy(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	path := newPath(t)
	servers := []*SQLite{openStore(t, path), openStore(t, path)}
	for step := range 400 {
		which := random.IntN(len(servers))
		s := servers[which]
		var err error
		did := ""
		switch random.IntN(6) {
		default:
			did = "change"
			_, err = s.Put(t.Context(), fmt.Sprint(step), bytes.Repeat([]byte("x"), random.IntN(20_000)), None)
		case 1:
			did = "checkpoint"
			err = s.conn.Exec("PRAGMA wal_checkpoint(PASSIVE)")
		case 2:
			did = "purge"
			_, err = s.Purge(t.Context(), time.Now())
		case 3:
			did = "start again"
			err = s.Close()
			servers[which] = openStore(t, path)
		case 4:
			did = "start after a kill"
			path = killed(t, path)
			for i, s := range servers {
				err = errors.Join(err, s.Close())
				servers[i] = openStore(t, path)
			}
		case 5:
			did = "touch"
			err = os.Chtimes(path, time.Now(), time.Now())
		}
		if err == nil {
			_, err = servers[which].Get(t.Context(), "0")
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			t.Fatalf("seed %d, step %d, %s: %v", seed, step, did, err)
		}
	}
}
