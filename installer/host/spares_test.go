package host

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
	"teleport-update/internal/immutable"
	"teleport-update/versions"
)

// A folder of links without an inode: links, a file and the unit go back all the same, and forward again.
func TestLinksAndUnitGoBackWithoutInodes(t *testing.T) {
	dir, originals := t.TempDir(), t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,nr_inodes=12"); err != nil {
		t.Skipf("no file system of our own: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	h := &Host{}
	h.Paths.LinkDir, h.Paths.UnitDir = dir, dir
	link, file := filepath.Join(dir, "teleport"), filepath.Join(dir, "tsh")
	must(t, os.Symlink("/old/teleport", link))
	must(t, os.WriteFile(file, []byte("a file"), 0o755))
	must(t, os.WriteFile(h.Paths.Unit(), []byte("[Service]\n# old\n"), 0o644))
	changes, err := planChanges(map[string]string{link: "/new/teleport", file: "/new/tsh"})
	must(t, err)
	unit, err := ReadUnit(h.Paths.Unit())
	must(t, err)
	tree := versions.Tree{Dir: t.TempDir()}
	must(t, os.MkdirAll(filepath.Join(tree.Dir, "etc", "systemd"), 0o755))
	must(t, os.WriteFile(filepath.Join(tree.Dir, "etc", "systemd", "teleport.service"), []byte("[Service]\n# new\n"), 0o644))
	must(t, MakeSpares(h, tree, changes, unit))
	must(t, ApplyLinks(changes, originals))
	must(t, h.PlaceUnit(tree))
	for n := 'a'; ; n++ {
		if os.WriteFile(filepath.Join(dir, string(n)), nil, 0o600) != nil {
			break
		}
	}
	for range 2 {
		must(t, RevertLinks(changes, originals))
		must(t, RestoreUnit(unit))
		for _, c := range changes {
			if !isBack(c) {
				t.Errorf("%s is not back", c.Path)
			}
		}
		if now, err := ReadUnit(h.Paths.Unit()); err != nil || !SameUnit(now, unit) {
			t.Errorf("the unit is not back: %s, %v", now.Content, err)
		}
		must(t, ApplyLinks(changes, originals))
		must(t, h.PlaceUnit(tree))
	}
	must(t, DropSpares(h))
	for _, path := range []string{link, file, h.Paths.Unit()} {
		if Exists(durable.Spare(path)) {
			t.Errorf("the spare of %s is still there", path)
		}
	}
}

// The file system may have no hard links: a spare is a copy then. Linux gives an immutable file no second name, either.
func TestTheSpareOfAFileWithoutASecondName(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tsh")
	must(t, os.WriteFile(file, []byte("a file"), 0o755))
	changes, err := planChanges(map[string]string{file: "/new/tsh"})
	must(t, err)
	if err := immutable.Set(file, true); err != nil {
		t.Skipf("no file can be made immutable here: %v", err)
	}
	err = makeSpare(changes[0])
	must(t, immutable.Set(file, false))
	must(t, err)
	must(t, ApplyLinks(changes, t.TempDir()))
	if !spareHolds(file, changes[0].Before.Saved) {
		t.Error("the spare is not the file")
	}
}
