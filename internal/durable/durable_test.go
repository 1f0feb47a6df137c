package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
)

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", filepath.Base(path), got, err, want)
	}
}

func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if len(got) != len(want) {
		t.Fatalf("folder holds %q; want %q", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("folder holds %q; want %q", got, want)
		}
	}
}

func TestWriteFileSetsTheModeWhateverTheUmask(t *testing.T) {
	old := syscall.Umask(0o027)
	defer syscall.Umask(old)
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	write(t, path, "a longer text that was there before")
	if err := WriteFile(path, []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "new")
	if info, _ := os.Stat(path); info.Mode() != 0o644 {
		t.Errorf("mode %v; want 0644", info.Mode())
	}
	wantNames(t, dir, "f")
}

func TestWriteFileReplacesALinkAndDoesNotFollowIt(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "victim"), "untouched")
	link := filepath.Join(dir, "link")
	if err := os.Symlink("victim", link); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantFile(t, filepath.Join(dir, "victim"), "untouched")
	wantFile(t, link, "new")
}

func TestAFailedWriteLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(taken, []byte("x"), 0o644); err == nil {
		t.Fatal("a file replaced a folder that is not empty")
	}
	wantNames(t, dir, "taken")
}

func TestCopyFileKeepsTheOldContentWhenTheSourceFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	write(t, path, "old")
	source := io.MultiReader(strings.NewReader("new"), iotest.ErrReader(errors.New("the source broke")))
	if err := CopyFile(path, source, 0o755); err == nil {
		t.Fatal("a copy of half a source was taken for whole")
	}
	wantFile(t, path, "old")
	wantNames(t, dir, "f")
}

func TestRelinkReplacesWhateverStandsThere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "teleport")
	for _, target := range []string{"/versions/1/bin/teleport", "/versions/2/bin/teleport"} {
		if err := RelinkNoSync(target, path); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.Readlink(path); got != target {
			t.Errorf("link leads to %q; want %q", got, target)
		}
	}
	write(t, filepath.Join(dir, "regular"), "old binary")
	if err := RelinkNoSync("elsewhere", filepath.Join(dir, "regular")); err != nil {
		t.Fatal(err)
	}
	wantNames(t, dir, "regular", "teleport")
}

func TestRenameNeverReplaces(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write(t, a, "a")
	write(t, b, "b")
	if err := Rename(a, b); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("Rename onto a taken name: %v; want fs.ErrExist", err)
	}
	wantFile(t, a, "a")
	wantFile(t, b, "b")
}

func TestExchangeSwapsTwoTrees(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "x", "b")
	for _, d := range []string{a, b} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(d, "name"), filepath.Base(d))
	}
	if err := Exchange(a, b); err != nil {
		t.Fatal(err)
	}
	wantFile(t, filepath.Join(a, "name"), "b")
	wantFile(t, filepath.Join(b, "name"), "a")
}

func TestRemoveAllTakesTheNameAwayFirst(t *testing.T) {
	dir := t.TempDir()
	tree := filepath.Join(dir, "15.1.1")
	if err := os.MkdirAll(filepath.Join(tree, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(tree, "bin", "teleport"), "x")
	if err := RemoveAll(tree); err != nil {
		t.Fatal(err)
	}
	if err := RemoveAll(tree); err != nil {
		t.Errorf("removing what is gone: %v", err)
	}
	wantNames(t, dir)
}

func TestMkdirAllSetsModesWhateverTheUmask(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	dir := t.TempDir()
	deep := filepath.Join(dir, "a", "b")
	if err := MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{filepath.Dir(deep), deep} {
		if info, _ := os.Stat(d); info.Mode().Perm() != 0o755 {
			t.Errorf("%s has mode %v; want 0755", d, info.Mode())
		}
	}
	write(t, filepath.Join(dir, "file"), "")
	if err := MkdirAll(filepath.Join(dir, "file"), 0o755); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a file in the way: %v; want ENOTDIR", err)
	}
}

func TestCreateTempIsPrivateAndTakenForUnfinished(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := t.TempDir()
	for range 2 { // never the same name twice
		f, err := CreateTemp(filepath.Join(dir, "sqlite.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if info, _ := f.Stat(); info.Mode() != 0o600 {
			t.Errorf("mode %v; want 0600", info.Mode())
		}
		if filepath.Dir(f.Name()) != dir || !IsTemp(filepath.Base(f.Name())) {
			t.Errorf("the file is %s; want a temporary name in %s", f.Name(), dir)
		}
	}
	if err := CleanTemp(dir); err != nil {
		t.Fatal(err)
	}
	wantNames(t, dir)
}

func TestCleanTempRemovesOnlyItsOwn(t *testing.T) {
	dir := t.TempDir()
	write(t, tempName(filepath.Join(dir, "updates.yaml")), "half")
	write(t, filepath.Join(dir, "updates.yaml"), "whole")
	write(t, tempName(filepath.Join(dir, "sqlite.db"))+"-journal", "half")
	foreign := []string{".hidden", ".tmp-", ".tmp-ABCDEFGH", ".tmp-a-ABCDEFG1", ".tmp-file-of-somebody"}
	for _, name := range foreign {
		write(t, filepath.Join(dir, name), "somebody's")
	}
	if err := os.Mkdir(tempName(filepath.Join(dir, "15.1.0")), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := CleanTempFiles(dir); err != nil {
		t.Fatal(err)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, ".tmp-15.1.0-*")); len(names) != 1 {
		t.Errorf("a folder went away with the files: %q", names)
	}
	if err := CleanTemp(dir); err != nil {
		t.Fatal(err)
	}
	wantNames(t, dir, append(foreign, "updates.yaml")...)
}
