package durable

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// full mounts a file system, lets prepare use it, and leaves it without room and without inodes.
func full(t *testing.T, prepare func(dir string)) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,nr_inodes=30"); err != nil {
		t.Skipf("no file system of our own: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	prepare(dir)
	_ = os.WriteFile(filepath.Join(dir, "bytes"), make([]byte, 2<<20), 0o600) // as many as fit
	for n := range 40 {
		_ = os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), nil, 0o600)
	}
	if err := os.WriteFile(filepath.Join(dir, "more"), nil, 0o600); err == nil {
		t.Fatal("the file system is not full")
	}
	return dir
}

func TestAFileWithASpareIsWrittenOnAFullFileSystem(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n) + "\n" }
	dir := full(t, func(dir string) {
		if err := WriteSpared(filepath.Join(dir, "f"), []byte(text(100)), 16<<10); err != nil {
			t.Fatal(err)
		}
	})
	path := filepath.Join(dir, "f")
	for _, n := range []int{200, 9000, 16000, 50, 12000} {
		if err := WriteSpared(path, []byte(text(n)), 16<<10); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		got, err := os.ReadFile(path)
		if err != nil || strings.ReplaceAll(string(got), " ", "") != text(n) {
			t.Errorf("%d bytes: the file has %d bytes, %v", n, len(got), err)
		}
	}
	if err := WriteSpared(path, []byte(text(100<<10)), 16<<10); err == nil {
		t.Error("a text without room was written")
	}
	if got, err := os.ReadFile(path); err != nil || strings.ReplaceAll(string(got), " ", "") != text(12000) {
		t.Errorf("after an error the file has %d bytes, %v", len(got), err)
	}
}

func TestASpareTakesItsPlaceAndBackAndStaysUntilItIsDropped(t *testing.T) {
	dir := full(t, func(dir string) {
		for name, target := range map[string]string{"l": "new", Spare("l"): "old"} {
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	})
	path := filepath.Join(dir, "l")
	for _, want := range []string{"old", "new", "old"} {
		if err := SwapSpare(path); err != nil {
			t.Fatal(err)
		}
		if got, err := os.Readlink(path); got != want || err != nil {
			t.Errorf("the link leads to %q, %v; want %q", got, err, want)
		}
	}
	if err := CleanTemp(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := SwapSpare(path); err != nil {
		t.Errorf("where nothing is: %v", err)
	}
	if err := os.Rename(path, Spare(path)); err != nil {
		t.Fatal(err)
	}
	if err := DropSpares(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(Spare(path)); err == nil {
		t.Error("the spare is still there")
	}
}
