package files

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

func TestAChecksumIsComputedOnceForAllWhoAsk(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.tar.gz", []byte("one"))
	var d digests
	d.turn, d.byName = make(chan struct{}, 1), make(map[string]*digest)
	d.turn <- struct{}{} // so that nothing is computed yet
	get := func(ctx context.Context) (*os.File, func() (string, error)) {
		f, err := os.Open(filepath.Join(dir, "a.tar.gz"))
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		return f, func() (string, error) { return d.get(ctx, "a.tar.gz", f, info) }
	}

	gone, leave := context.WithCancel(t.Context())
	leave()
	first, ask := get(gone)
	if _, err := ask(); !errors.Is(err, context.Canceled) {
		t.Fatalf("the first to ask, who went away, got %v", err)
	}
	sums := make(chan string)
	var others []*os.File
	for range 10 {
		f, ask := get(t.Context())
		others = append(others, f)
		go func() {
			sum, err := ask()
			sums <- fmt.Sprint(sum, err)
		}()
	}
	isOpen := func(f *os.File) bool { _, err := f.Stat(); return err == nil }
	for deadline := time.Now().Add(time.Minute); slices.ContainsFunc(others, isOpen); {
		if time.Now().After(deadline) {
			t.Fatal("the file is to be read more than once")
		}
		runtime.Gosched()
	}
	if !isOpen(first) {
		t.Fatal("nobody is left to read the file")
	}
	<-d.turn
	want := fmt.Sprintf("%x<nil>", sha256.Sum256([]byte("one")))
	for range others {
		if got := <-sums; got != want {
			t.Errorf("got %s; want %s", got, want)
		}
	}
}

func TestAChecksumThatFailedIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.tar.gz", []byte("one"))
	var d digests
	get := func(spoil func(f *os.File)) (string, error) {
		f, err := os.OpenFile(filepath.Join(dir, "a.tar.gz"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		spoil(f)
		return d.get(t.Context(), "a.tar.gz", f, info)
	}
	if sum, err := get(func(f *os.File) { f.WriteAt([]byte("more"), 3) }); !errors.Is(err, errChanging) {
		t.Errorf("a file that changes while it is read: %q, %v", sum, err)
	}
	if sum, err := get(func(f *os.File) { f.Close() }); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a file that cannot be read: %q, %v", sum, err)
	}
	if sum, err := get(func(*os.File) {}); sum != fmt.Sprintf("%x", sha256.Sum256([]byte("onemore"))) || err != nil {
		t.Errorf("once it is still and can be read: %q, %v", sum, err)
	}
}

// While a tarball is copied into the folder it is another file at each request. Only
// its newest state is read, by whoever asked last, and nobody's file stays open.
func TestAFileThatGrowsHasOneReading(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.tar.gz")
	var d digests
	d.turn, d.byName = make(chan struct{}, 1), make(map[string]*digest)
	d.turn <- struct{}{} // nothing is read before the last has asked
	ask := func(ctx context.Context, name string) error {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.get(ctx, name, f, info)
		return err
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	readings := func() int {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.readings
	}
	limit := time.Now().Add(time.Minute)
	for n := range 1000 {
		if err := os.WriteFile(path, make([]byte, n+1), 0o644); err != nil {
			t.Fatal(err)
		}
		for {
			err := ask(gone, "a.tar.gz")
			if errors.Is(err, context.Canceled) {
				break
			}
			if !errors.Is(err, errBusy) || time.Now().After(limit) {
				t.Fatal(err)
			}
			runtime.Gosched() // those that were ended have yet to go
		}
		if got := readings(); got > maxReadings {
			t.Fatalf("%d files are open", got)
		}
	}
	for ; readings() > 1; runtime.Gosched() {
		if time.Now().After(limit) {
			t.Fatalf("%d readings wait, of one file", readings())
		}
	}
	<-d.turn
	if err := ask(t.Context(), "a.tar.gz"); err != nil {
		t.Errorf("the newest state: %v", err)
	}

	// Others of the same moment are as many as there may be, and no more.
	d.turn <- struct{}{}
	for n := range maxReadings {
		if err := ask(gone, fmt.Sprint(n)); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if err := ask(gone, "one more"); !errors.Is(err, errBusy) {
		t.Errorf("one more: %v", err)
	}
	<-d.turn
}

func write(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
		t.Fatal(err)
	}
}
