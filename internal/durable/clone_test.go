package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCloneFileKeepsModeAndAttributesWhateverTheUmask(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	write(t, from, "binary")
	if err := os.Chmod(from, 0o751); err != nil {
		t.Fatal(err)
	}
	attributes := unix.Setxattr(from, "user.colour", []byte("blue"), 0) == nil
	write(t, to, "a longer text that was there before")
	if err := CloneFile(from, to); err != nil {
		t.Fatal(err)
	}
	wantFile(t, to, "binary")
	if info, _ := os.Stat(to); info.Mode() != 0o751 {
		t.Errorf("mode %v; want 0751", info.Mode())
	}
	if attributes {
		value := make([]byte, 16)
		if n, err := unix.Getxattr(to, "user.colour", value); err != nil || string(value[:n]) != "blue" {
			t.Errorf("attribute %q, %v; want blue", value[:max(n, 0)], err)
		}
	}
	wantNames(t, dir, "from", "to")
}

func TestCloneFileTakesRegularFilesOnly(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "x")
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", ".", "missing"} {
		if err := CloneFile(filepath.Join(dir, name), filepath.Join(dir, "to")); err == nil {
			t.Errorf("%s was copied", name)
		}
	}
	wantNames(t, dir, "file", "link")
}

func TestLinkFilesGivesEachFileASecondName(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := LinkFiles(from, to); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a folder that is not there: %v; want fs.ErrNotExist", err)
	}
	if err := os.Mkdir(from, 0o750); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(from, "sqlite.db"), "rows")
	if err := LinkFiles(from, to); err != nil {
		t.Fatal(err)
	}
	wantFile(t, filepath.Join(to, "sqlite.db"), "rows")
	if info, _ := os.Stat(to); info.Mode().Perm() != 0o750 {
		t.Errorf("mode %v; want 0750", info.Mode())
	}
	if err := os.RemoveAll(from); err != nil {
		t.Fatal(err)
	}
	wantFile(t, filepath.Join(to, "sqlite.db"), "rows")
}
