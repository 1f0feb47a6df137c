package space

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// small mounts a file system of its own.
func small(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("no file system of our own: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestRoomIsThatOfTheFileSystemOfAPath(t *testing.T) {
	dir := small(t, "size=8m,nr_inodes=20")
	for name, path := range map[string]string{"a folder": dir, "a path that is not there yet": filepath.Join(dir, "versions", "partial")} {
		free, err := At(path)
		if err != nil || free.Bytes != 8<<20 || !free.CountsFiles || free.Files != 19 {
			t.Errorf("%s: %+v, %v; want 8 MiB and 19 files", name, free, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if free, err := At(dir); err != nil || free.Bytes != 5<<20 || free.Files != 18 {
		t.Errorf("with a file of 3 MiB: %+v, %v", free, err)
	}
	if _, err := At(filepath.Join(dir, "f", "below")); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("below a file: %v; want ENOTDIR", err)
	}
}

func TestWhatDoesNotFitIsToldByItsNumbers(t *testing.T) {
	dir := small(t, "size=8m,nr_inodes=20")
	for name, tc := range map[string]struct {
		bytes, files int64
		want         string // the error; empty: it fits
	}{
		"all that there is": {8 << 20, 19, ""},
		"nothing":           {0, 0, ""},
		"a byte more":       {8<<20 + 1, 0, "not enough space on the file system of DIR: 8.0 MiB needed, 8.0 MiB free"},
		"a file more":       {1, 20, "not enough space on the file system of DIR: 20 files (inodes) needed, 19 files (inodes) free"},
		"too much and many": {1 << 30, 20, "not enough space on the file system of DIR: 1.0 GiB needed, 8.0 MiB free"},
	} {
		err := Check(dir, tc.bytes, tc.files)
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.want != "" && (err == nil || strings.ReplaceAll(err.Error(), dir, "DIR") != tc.want || !errors.Is(err, unix.ENOSPC)):
			t.Errorf("%s: %v; want %q", name, err, tc.want)
		}
	}
}

func TestAFullDiskIsExplainedAndNothingElse(t *testing.T) {
	dir := small(t, "size=1m,nr_inodes=4")
	full := &fs.PathError{Op: "write", Path: "x", Err: unix.ENOSPC}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"no space":          {full, "no space left on the file system of DIR (1.0 MiB free)"},
		"over the quota":    {fmt.Errorf("copy: %w", unix.EDQUOT), "no space left on the file system of DIR (1.0 MiB free)"},
		"explained already": {fmt.Errorf("copy: %w", &Error{Path: "there", Need: 1 << 20}), "copy: not enough space on the file system of there: 1.0 MiB needed, 0 B free"},
		"another error":     {unix.EIO, "input/output error"},
	} {
		if got := Explain(tc.err, dir); strings.ReplaceAll(got.Error(), dir, "DIR") != tc.want {
			t.Errorf("%s: %v; want %q", name, got, tc.want)
		}
	}
	for n := range 3 {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprint(n)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got, ok := errors.AsType[*Error](Explain(full, dir)); !ok || !got.Inodes || got.Free != 0 {
		t.Errorf("no files left: %v", got)
	}
	if err := Explain(nil, dir); err != nil {
		t.Errorf("no error became %v", err)
	}
}

func TestFormat(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536 << 10: "1.5 MiB", 5 << 30: "5.0 GiB"} {
		if got := Format(n); got != want {
			t.Errorf("%d: %s; want %s", n, got, want)
		}
	}
}
