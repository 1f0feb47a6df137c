package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// moment is what was in the store between two changes.
type moment struct {
	begun, made int // the disk's deeds before the change, and when it was acknowledged
	content     string
}

// everythingOf is all that a store keeps.
func everythingOf(s *SQLite) (string, error) {
	var b strings.Builder
	err := s.do(context.Background(), func(c *sqlite3.Conn) error {
		for _, table := range []string{"head", "resources", "history"} {
			columns := "*"
			if table == "head" {
				columns = "revision" // its generation grows when the file is opened
			}
			stmt, _, err := c.Prepare("SELECT " + columns + " FROM " + table + " ORDER BY 1")
			if err != nil {
				return err
			}
			fmt.Fprintln(&b, table)
			for stmt.Step() {
				for i := range stmt.ColumnCount() {
					fmt.Fprintf(&b, "%s|", stmt.ColumnText(i))
				}
				fmt.Fprintln(&b)
			}
			if err := stmt.Close(); err != nil {
				return err
			}
		}
		return nil
	})
	return b.String(), err
}

// The store is ended at each write, sync and change of a name of two servers that write to it: from the
// first one that makes the file, over checkpoints, to those of the servers that close it and open it again.
// What is opened after that is what was there before or after the change that was under way,
// its history included, and takes the next change. Nothing that was acknowledged is missing.
func TestEveryWriteOfTheStore(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d := newDisk(t)
	moments := changesOf(t, d, rand.New(rand.NewPCG(seed, 0)))
	parts := 1
	if os.Getenv("FAULTS") == "all" {
		parts = 20
	}
	scratch := t.TempDir()
	var states sync.WaitGroup
	room := make(chan struct{}, 2)
	count := 0
	for n := range d.now() + 1 {
		if testing.Short() && n%10 != 0 {
			continue
		}
		losses := append([]loss{nothing, allOfIt}, slices.Repeat([]loss{anyPart}, parts)...)
		count += len(losses)
		room <- struct{}{}
		states.Go(func() {
			defer func() { <-room }()
			for i, lost := range losses {
				folder := filepath.Join(scratch, fmt.Sprint(n, "-", i))
				random := rand.New(rand.NewPCG(seed, uint64(n*100+i)))
				err := d.after(n, lost, random, folder)
				if err == nil {
					err = isOneOf(filepath.Join(folder, "store.db"), moments, n)
				}
				if err != nil && d.collides(n) {
					t.Logf("after %d of %d: SQLite takes an older page for the one of the frame: %.200v", n, len(d.done), err)
				} else if err != nil {
					t.Errorf("after %d of %d, %v, loss %d: %v", n, len(d.done), d.done[max(0, n-1)], lost, err)
				}
				os.RemoveAll(folder)
			}
		})
	}
	states.Wait()
	t.Logf("the store after each of its writes: %d states of %d writes and %d changes", count, d.now(), len(moments)-1)
}

// changesOf has two servers change a store, and returns what was in it after each change.
func changesOf(t *testing.T, d *disk, random *rand.Rand) []moment {
	path := newPath(t)
	open := func() *SQLite {
		s, err := openSQLite(t.Context(), path, t.Name())
		if err == nil {
			d.add(deed{what: "sync names"}) // which no file system of SQLite's is asked for
			// Pages of the log before they are written to the file: often, and not after a thousand.
			err = s.conn.Exec("PRAGMA wal_autocheckpoint = 12")
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	contentOf := func(s *SQLite) string {
		text, err := everythingOf(s)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	servers := []*SQLite{open(), open()}
	moments := []moment{{0, 0, contentOf(servers[0])}}
	now := time.Unix(1_700_000_000, 0)
	for i := range 30 {
		s := servers[random.IntN(2)]
		items, _, err := s.List(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		m := moment{begun: d.now()}
		if i%10 == 9 {
			now = now.Add(time.Hour)
			if _, err := s.Purge(t.Context(), now); err != nil {
				t.Fatal(err)
			}
		} else {
			c := Change{Audit: Audit{Time: now, Who: []string{"", "engine", "uid 0"}[random.IntN(3)], What: fmt.Sprint("change ", i)}}
			for k := range 1 + random.IntN(3) {
				w := Write{Key: fmt.Sprint("key/", k, "/", random.IntN(3)), Value: []byte(strings.Repeat(fmt.Sprint(i, " "), 1+random.IntN(3000)))}
				if random.IntN(4) == 0 {
					w.Expires = now.Add(time.Minute)
				}
				if at := slices.IndexFunc(items, func(item Item) bool { return item.Key == w.Key }); at >= 0 {
					w.Based, w.Do = items[at].Revision, []Do{Set, Set, Remove}[random.IntN(3)]
				}
				c.Writes = append(c.Writes, w)
			}
			if _, err := s.Commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		m.made, m.content = d.now(), contentOf(s)
		moments = append(moments, m)
		if i == 14 || i == 29 { // the last one to close it removes the log
			for k := range servers {
				if err := servers[k].Close(); err != nil {
					t.Fatal(err)
				}
			}
			if i == 14 {
				servers = []*SQLite{open(), open()}
			}
		}
	}
	return moments
}

// isOneOf opens what is there after n deeds.
func isOneOf(path string, moments []moment, n int) (err error) {
	s, err := OpenSQLite(context.Background(), path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	got, err := everythingOf(s)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(moments, func(m moment) bool { return m.content == got }) {
		return fmt.Errorf("there is what never was:\n%.2000s", got)
	}
	acknowledged := 0
	for i, m := range moments {
		if m.made <= n {
			acknowledged = i
		}
	}
	var allowed []string
	for i, m := range moments[acknowledged:min(acknowledged+2, len(moments))] {
		if i == 0 || m.begun < n {
			allowed = append(allowed, m.content)
		}
	}
	if !slices.Contains(allowed, got) {
		return fmt.Errorf("there is what was at another moment than after change %d:\n%.2000s", acknowledged, got)
	}
	_, err = s.Put(context.Background(), "after it", []byte("x"), None)
	return err
}
