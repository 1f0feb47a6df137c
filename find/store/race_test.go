package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"teleport-update/integration/powercut"
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
	if _, at, err := s.List(t.Context(), ""); at != want || err != nil {
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
		w := startWriter(t, path)
		w.end(func() { w.kill() })
		w.check(round)
	}
}

func TestAPowerCutLeavesTheStoreWhole(t *testing.T) {
	disk := powercut.New(t, noPowerCuts)
	path := filepath.Join(disk.Dir, "store", "store.db")
	for round := range 3 {
		w := startWriter(t, path)
		w.end(func() {
			// A sync that is under way while the file system ends is neither
			// before nor after it.
			w.deaf.Store(true)
			if err := disk.Cut(); err != nil {
				t.Error(err)
			}
			w.kill()
		})
		if err := disk.Restore(); err != nil {
			t.Fatal(err)
		}
		w.check(round)
	}
}

// writer is a process that writes until it is stopped.
type writer struct {
	t            *testing.T
	path         string
	process      *exec.Cmd
	lines        *bufio.Reader
	acknowledged map[string]Revision
	deaf         atomic.Bool // acknowledgements do not count any more
}

func startWriter(t *testing.T, path string) *writer {
	t.Helper()
	w := &writer{t: t, path: path, process: process(t, "write", path, "0"), acknowledged: make(map[string]Revision)}
	w.process.Stderr = nil // what it says when its disk goes is not of interest
	out, err := w.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.process.Start(); err != nil {
		t.Fatal(err)
	}
	w.lines = bufio.NewReader(out)
	return w
}

func (w *writer) kill() { w.process.Process.Kill() }

// read notes one change that was acknowledged.
func (w *writer) read() bool {
	line, err := w.lines.ReadString('\n')
	key, number, ok := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || !ok {
		return false
	}
	revision, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		w.t.Errorf("the writer says %q", line)
	}
	if !w.deaf.Load() {
		w.acknowledged[key] = Revision(revision)
	}
	return true
}

// end calls stop at some moment after some changes, and returns when the writer has
// ended.
func (w *writer) end(stop func()) {
	w.t.Helper()
	for range 1 + rand.IntN(40) {
		if !w.read() {
			w.t.Fatal("the writer has ended by itself")
		}
	}
	stopped := make(chan struct{})
	time.AfterFunc(time.Duration(rand.Int64N(int64(5*time.Millisecond))), func() {
		stop()
		close(stopped)
	})
	for w.read() {
	}
	<-stopped
	w.process.Wait()
}

// check opens what the writer has left.
func (w *writer) check(round int) {
	w.t.Helper()
	s, err := OpenSQLite(w.t.Context(), w.path)
	if err != nil {
		w.t.Fatalf("round %d: %v", round, err)
	}
	items, at, err := s.List(w.t.Context(), "written/")
	if err != nil {
		w.t.Fatal(err)
	}
	newest := None
	for _, item := range items {
		newest = max(newest, item.Revision)
		if string(item.Value) != item.Key+strings.Repeat(" x", 5000) {
			w.t.Errorf("round %d: %s is damaged", round, item.Key)
		}
		if item.Revision < w.acknowledged[item.Key] {
			w.t.Errorf("round %d: %s has revision %d, and %d was acknowledged", round, item.Key, item.Revision, w.acknowledged[item.Key])
		}
		delete(w.acknowledged, item.Key)
	}
	if newest != at || len(w.acknowledged) > 0 {
		w.t.Errorf("round %d: items up to revision %d in a store of revision %d; missing %v", round, newest, at, w.acknowledged)
	}
	if err := s.Close(); err != nil {
		w.t.Error(err)
	}
}
