package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Everybody adds to one counter: goroutines that share a store, goroutines with
// stores of their own, another process. Whoever undid another's change would
// leave it too low.
func TestNoChangeIsLostBetweenWriters(t *testing.T) {
	const times, writers = 20, 3
	path := newPath(t)
	other := process(t, "count", path, strconv.Itoa(times))
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	for range 2 {
		s := openStore(t, path)
		for range writers {
			go func() { done <- count(t.Context(), s, times) }()
		}
	}
	for range 2 * writers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := other.Wait(); err != nil {
		t.Errorf("the other process: %v", err)
	}
	s := openStore(t, path)
	item, err := s.Get(t.Context(), counter)
	const want = times * (2*writers + 1)
	if err != nil || string(item.Value) != strconv.Itoa(want) {
		t.Errorf("the counter is %s, %v; want %d", item.Value, err, want)
	}
	if at, err := s.Revision(t.Context()); at != want || err != nil {
		t.Errorf("the revision is %d, %v; want one for each change, %d", at, err, want)
	}
}

func TestAListIsOfOneMoment(t *testing.T) {
	path := newPath(t)
	writer, reader := openStore(t, path), openStore(t, path)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		for revisions := make([]Revision, 3); ; {
			for i := range revisions {
				var err error
				if revisions[i], err = writer.Put(ctx, fmt.Sprint("list/", i), []byte("x"), revisions[i]); err != nil {
					done <- err
					return
				}
			}
		}
	}()
	for last := None; last < 200; {
		items, at, err := reader.List(t.Context(), "list/")
		if err != nil {
			t.Fatal(err)
		}
		newest := None
		for _, item := range items {
			newest = max(newest, item.Revision)
		}
		if newest != at || at < last {
			t.Fatalf("items up to revision %d in a list of revision %d, after %d", newest, at, last)
		}
		last = at
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Of a writer that is killed at any moment, all that was acknowledged is there,
// and nothing is in halves.
func TestAKilledWriterLeavesTheStoreWhole(t *testing.T) {
	path := newPath(t)
	for round := range 8 {
		p := process(t, "write", path, "0")
		out, err := p.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		acknowledged := make(map[string]Revision)
		lines := bufio.NewReader(out)
		read := func() bool {
			line, err := lines.ReadString('\n')
			key, number, ok := strings.Cut(strings.TrimSpace(line), " ")
			if err != nil || !ok {
				return false
			}
			revision, err := strconv.ParseInt(number, 10, 64)
			if err != nil {
				t.Fatalf("the writer says %q", line)
			}
			acknowledged[key] = Revision(revision)
			return true
		}
		for range 1 + rand.IntN(40) {
			if !read() {
				t.Fatal("the writer has ended by itself")
			}
		}
		time.AfterFunc(time.Duration(rand.Int64N(int64(5*time.Millisecond))), func() { p.Process.Kill() })
		for read() {
		}
		io.Copy(io.Discard, lines)
		p.Wait()

		s, err := OpenSQLite(t.Context(), path)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		items, at, err := s.List(t.Context(), "written/")
		if err != nil {
			t.Fatal(err)
		}
		newest := None
		for _, item := range items {
			newest = max(newest, item.Revision)
			if string(item.Value) != item.Key+strings.Repeat(" x", 5000) {
				t.Errorf("round %d: %s is damaged", round, item.Key)
			}
			if item.Revision < acknowledged[item.Key] {
				t.Errorf("round %d: %s has revision %d, and %d was acknowledged", round, item.Key, item.Revision, acknowledged[item.Key])
			}
			delete(acknowledged, item.Key)
		}
		if newest != at || len(acknowledged) > 0 {
			t.Errorf("round %d: items up to revision %d in a store of revision %d; missing %v", round, newest, at, acknowledged)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
