package parts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestOnlyAReadableFileIsRead(t *testing.T) {
	long := filepath.Join(t.TempDir(), "long")
	truncate(t, long, strings.Repeat("#", MaxWatched+1))
	for path, want := range map[string]string{
		"/nonexistent/file": "no such file", "/dev/zero": "not a regular file", long: "larger",
		pipe(t, filepath.Join(t.TempDir(), "pipe")): "not a regular file",
	} {
		if _, err := (&WatchedFile{Path: path}).Read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error with %q", path, err, want)
		}
	}
	(&WatchedFile{}).Watch(t.Context(), time.Second, nil) // has nothing to watch, so it returns
}

// The clock is synctest's, the file is real.
func TestWatchTakesUpEdits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	truncate(t, path, "one")
	synctest.Test(t, func(t *testing.T) {
		w := &WatchedFile{Path: path}
		taken, refused := "", 0
		take := func() {
			data, err := w.Read()
			if err == nil && string(data) == "bad" {
				err = errors.New("it is bad")
			}
			if err != nil {
				refused++
				return
			}
			taken = string(data)
		}
		take()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go w.Watch(ctx, time.Second, take)
		after := func(d time.Duration, want string, errors int) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if taken != want || refused != errors {
				t.Errorf("it has taken %q, and refused %d; want %q and %d", taken, refused, want, errors)
			}
		}
		after(1500*time.Millisecond, "one", 0)

		edit(t, path, "two")         // at 1.5 s, seen at 2 s
		after(time.Second, "one", 0) // it may still be written
		after(time.Second, "two", 0)

		// An editor that writes in place, slowly.
		truncate(t, path, "thr")
		after(time.Second, "two", 0)
		truncate(t, path, "three")
		after(time.Second, "two", 0)
		after(time.Second, "three", 0)

		edit(t, path, "bad")
		after(time.Minute, "three", 1) // not one each second
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		after(time.Minute, "three", 2)
		edit(t, path, "two")
		after(2*time.Second, "two", 2)

		// Nobody writes into it: a reader would wait for ever.
		if err := os.Rename(pipe(t, path+".pipe"), path); err != nil {
			t.Fatal(err)
		}
		after(time.Minute, "two", 3)
		edit(t, path, "one")
		after(2*time.Second, "one", 3)
	})
}

func pipe(t *testing.T, path string) string {
	t.Helper()
	if err := unix.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// edit replaces the file, as most editors do.
func edit(t *testing.T, path, content string) {
	t.Helper()
	truncate(t, path+".new", content)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
