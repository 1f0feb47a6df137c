package folder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A link is worth as much as the right to make it.
func TestOnlyLinksThatRootMadeAreFollowed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("links of other users are made by root")
	}
	const user = 1234
	for name, tc := range map[string]struct {
		make    func(t *testing.T, in, link string)
		refused bool
	}{
		"root's link in root's folder": {make: func(*testing.T, string, string) {}},
		"root's link in a user's folder": {refused: true, make: func(t *testing.T, in, _ string) {
			must(t, os.Chown(in, user, user))
		}},
		"a user's link in root's folder": {refused: true, make: func(t *testing.T, _, link string) {
			must(t, os.Lchown(link, user, user))
		}},
		"root's link in a folder that everybody may write": {refused: true, make: func(t *testing.T, in, _ string) {
			must(t, os.Chmod(in, 0o777))
		}},
		"root's link in a sticky folder": {make: func(t *testing.T, in, _ string) {
			must(t, os.Chmod(in, 0o777|os.ModeSticky))
		}},
	} {
		for _, relative := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				root := t.TempDir()
				in, real := filepath.Join(root, "in"), filepath.Join(root, "real")
				must(t, os.Mkdir(in, 0o755))
				must(t, os.MkdirAll(filepath.Join(real, "proc"), 0o755))
				link, target := filepath.Join(in, "link"), real
				if relative {
					target = "../in/../real"
				}
				must(t, os.Symlink(target, link))
				tc.make(t, in, link)
				f, err := Open(filepath.Join(link, "proc"))
				if tc.refused {
					if err == nil || !strings.Contains(err.Error(), "is not followed") {
						t.Fatalf("it ends with %v; want the link refused", err)
					}
					return
				}
				must(t, err)
				defer f.Close()
				if want := filepath.Join(real, "proc"); f.Path() != want {
					t.Errorf("it is %s; want %s", f.Path(), want)
				}
			})
		}
	}
}

func TestWhatIsNoFolderIsNotOpened(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	must(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	for name, missing := range map[string]bool{"none": true, "none/below": true, "file": false, "file/below": false, "loop": false} {
		_, err := Open(filepath.Join(dir, name))
		if err == nil || errors.Is(err, fs.ErrNotExist) != missing || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The folder that was opened stays the one, whatever comes in its place.
func TestAFolderThatIsRenamedIsWorkedInWhereItIs(t *testing.T) {
	dir := t.TempDir()
	here, there := filepath.Join(dir, "here"), filepath.Join(dir, "there")
	must(t, os.Mkdir(here, 0o755))
	f, err := Open(here)
	must(t, err)
	defer f.Close()
	before, err := f.ID("boot")
	must(t, err)
	must(t, os.Rename(here, there))
	must(t, os.Mkdir(here, 0o755))
	must(t, os.WriteFile(f.At("new"), nil, 0o600))
	if _, err := os.Stat(filepath.Join(there, "new")); err != nil {
		t.Error(err)
	}
	other, err := Open(here)
	must(t, err)
	defer other.Close()
	if id, err := other.ID("boot"); err != nil || id.Same(before) {
		t.Errorf("the folder in its place passes for it: %+v, %v", id, err)
	}
	moved, err := Open(there)
	must(t, err)
	defer moved.Close()
	if id, err := moved.ID("boot"); err != nil || !id.Same(before) {
		t.Errorf("it is not known again: %+v, %+v, %v", id, before, err)
	}
	_, err = os.Stat(f.At("none"))
	if got := f.Explain(err.Error()); got != "stat "+here+"/none: no such file or directory" {
		t.Errorf("a person is told %q", got)
	}
}

func TestAFolderThatWasRemovedIsKnown(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(path string) error
		removed bool
	}{
		"there":             {change: func(string) error { return nil }},
		"there, with files": {change: func(path string) error { return os.WriteFile(path+"/file", nil, 0o600) }},
		"renamed":           {change: func(path string) error { return os.Rename(path, path+".away") }},
		"not to be listed":  {change: func(path string) error { return os.Chmod(path, 0) }},
		"removed":           {change: os.Remove, removed: true},
		"removed, and another is there": {removed: true, change: func(path string) error {
			return errors.Join(os.Remove(path), os.Mkdir(path, 0o700))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "proc")
			must(t, os.Mkdir(path, 0o700))
			f, err := Open(path)
			must(t, err)
			defer f.Close()
			must(t, tc.change(path))
			if f.Removed() != tc.removed {
				t.Errorf("removed: %t; want %t", f.Removed(), tc.removed)
			}
		})
	}
}

func TestDeviceNumbersDecideWithinOneBoot(t *testing.T) {
	id := ID{Boot: "1", Device: 7, Inode: 12, FileSystem: "ab"}
	for name, tc := range map[string]struct {
		other ID
		same  bool
	}{
		"the same":                             {id, true},
		"another folder":                       {ID{"1", 7, 13, "ab", ""}, false},
		"another disk":                         {ID{"1", 8, 12, "cd", ""}, false},
		"the same disk as another device":      {ID{"1", 8, 12, "ab", ""}, true},
		"that, after a boot":                   {ID{"2", 8, 12, "ab", ""}, true},
		"a number that says nothing of a disk": {ID{"2", 7, 12, "cd", ""}, false},
		"no number of the file system":         {ID{"2", 7, 12, "", ""}, false},
		"none, within the boot":                {ID{"1", 7, 12, "", ""}, true},
	} {
		if got := id.Same(tc.other); got != tc.same {
			t.Errorf("%s: %v", name, got)
		}
	}
	if (ID{Boot: "1", Device: 7, Inode: 12}).Same(ID{Boot: "2", Device: 7, Inode: 12}) {
		t.Error("two file systems without a number are the same")
	}
}

func TestAPathThroughAHandleHasOneElement(t *testing.T) {
	for path, want := range map[string]bool{
		"/proc/self/fd/7/sqlite.db":      true,
		"/proc/self/fd/7/sqlite.db-wal":  true,
		"/proc/self/fd/7":                false,
		"/proc/self/fd/7/":               false,
		"/proc/self/fd/7/.":              false,
		"/proc/self/fd/7/..":             false,
		"/proc/self/fd/7/a/b":            false,
		"/proc/self/fd/7/../7/sqlite.db": false,
		"/proc/self/fd/07/sqlite.db":     false,
		"/proc/self/fd/-1/sqlite.db":     false,
		"/proc/1/fd/7/sqlite.db":         false,
		"/etc/shadow":                    false,
		"sqlite.db":                      false,
		"":                               false,
	} {
		if got := IsAt(path); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}

// A folder that is not on the file system that was mounted over it is another, whatever
// it holds: the kernel says of the open folder what it is on.
func TestAFolderKnowsWhatItIsMountedOn(t *testing.T) {
	f, err := Open("/proc/self")
	must(t, err)
	defer f.Close()
	if id, err := f.ID("1"); err != nil || id.Mount != "/proc" {
		t.Errorf("it is on %q, %v", id.Mount, err)
	}
}
