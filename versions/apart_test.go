package versions

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/internal/space"
)

// testApart is a store whose programs have a place of their own.
func testApart(t *testing.T) *Store {
	t.Helper()
	s := testStore(t)
	s.Programs = filepath.Join(t.TempDir(), "opt", "programs")
	return s
}

// wantPrograms fails unless these are the names in the place of programs.
func wantPrograms(t *testing.T, s *Store, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(s.Programs)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, want) {
		t.Errorf("in the place of programs are %q; want %q", names, want)
	}
}

func TestProgramsGoToTheirOwnPlaceAndTheRecordStays(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	s := testApart(t)
	must(t, os.MkdirAll(filepath.Dir(s.Dir), 0o700))
	tree := publish(t, s, oss("15.1.1"))
	wantWhole(t, tree, soundTarball("15.1.1"))
	if want := s.Programs + "/15.1.1"; tree.Programs != want || tree.Binary("tsh") != want+"/bin/tsh" || tree.Dir != s.Dir+"/15.1.1" {
		t.Errorf("the tree is %+v", tree)
	}
	for _, path := range []string{s.Programs, tree.Programs, tree.Binary(""), tree.Binary("tsh"), filepath.Dir(tree.UnitFile())} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v; want mode 0755", path, info, err)
		}
	}
	var record []string
	entries, err := os.ReadDir(tree.Dir)
	must(t, err)
	for _, e := range entries {
		record = append(record, e.Name())
	}
	if to, err := os.Readlink(tree.Dir + "/bin"); err != nil || to != tree.Programs+"/bin" || !slices.Equal(record, []string{"bin", "edition", "etc", "manifest", "sha256"}) {
		t.Errorf("the record holds %q, and bin leads to %q (%v)", record, to, err)
	}
	check := exec.Command("sha256sum", "--quiet", "-c", "manifest")
	check.Dir = tree.Dir
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("a person finds %v: %s", err, out)
	}
	found, ok, err := s.Lookup(oss("15.1.1"))
	if err != nil || !ok || found != tree {
		t.Errorf("found %+v, %v, %v", found, ok, err)
	}
	wantPrograms(t, s, "15.1.1")
}

func TestADamagedVersionInTwoPlacesIsReplacedAndKeepsItsBackup(t *testing.T) {
	for name, damage := range map[string]func(Tree) error{
		"a program changed":      func(t Tree) error { return os.Truncate(t.Binary("tsh"), 1) },
		"the programs are gone":  func(t Tree) error { return os.RemoveAll(t.Programs) },
		"the record is damaged":  func(t Tree) error { return os.WriteFile(t.Dir+"/manifest", nil, 0o644) },
		"the record lost sha256": func(t Tree) error { return os.Remove(t.Dir + "/sha256") },
		"a program was added":    func(t Tree) error { return os.WriteFile(t.Binary("more"), nil, 0o755) },
		"others may write there": func(t Tree) error { return os.Chmod(t.Programs, 0o777) },
	} {
		t.Run(name, func(t *testing.T) {
			s := testApart(t)
			tree := publish(t, s, oss("15.1.1"))
			must(t, os.MkdirAll(tree.BackupDir(), 0o700))
			must(t, os.WriteFile(tree.BackupDir()+"/sqlite.db", []byte("rows"), 0o600))
			must(t, damage(tree))
			_, damaged := errors.AsType[*DamagedError](tree.Verify(context.Background()))
			if _, ok, _ := s.Lookup(oss("15.1.1")); ok && !damaged {
				t.Error("the damage is not seen")
			}
			if _, err := tree.Size(); err != nil {
				t.Errorf("its size cannot be told, so that nothing is fetched: %v", err)
			}
			again := publish(t, s, oss("15.1.1"))
			if again != tree {
				t.Errorf("the tree is %+v; want %+v", again, tree)
			}
			wantWhole(t, again, soundTarball("15.1.1"))
			if data, err := os.ReadFile(tree.BackupDir() + "/sqlite.db"); err != nil || string(data) != "rows" {
				t.Errorf("the backup holds %q, %v", data, err)
			}
			wantPrograms(t, s, "15.1.1")
			if left, _ := os.ReadDir(s.PartialDir()); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// What a removal or a publishing leaves that was cut off between the two places.
func TestProgramsWithoutARecordGoUnlessTheyAreNeeded(t *testing.T) {
	s := testApart(t)
	s.ProcDir = fakeProc(t)
	links := t.TempDir()
	for _, v := range []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0"} {
		publish(t, s, oss(v))
	}
	must(t, os.RemoveAll(s.Dir+"/1.1.0"))
	must(t, os.RemoveAll(s.Dir+"/1.2.0"))
	must(t, os.Symlink(s.Programs+"/1.2.0/bin/tsh", links+"/tsh"))
	// Through the link for people, which is theirs to use.
	must(t, os.Symlink(s.Dir+"/1.3.0/bin/tctl", links+"/tctl"))
	must(t, os.MkdirAll(s.Programs+"/.tmp-0.9.0-ABCDEFGH/bin", 0o755))
	must(t, os.MkdirAll(s.Programs+"/mine", 0o755))
	needed := Needed{Releases: []Release{oss("1.0.0")}, LinkDirs: []string{links}}

	if !s.HasLeftovers() || !s.HasOthers("1.0.0", "1.2.0", "1.3.0") {
		t.Error("programs without a record are no leftovers")
	}
	// A fetch that is at work has published the one half, and is about to publish the other.
	at, err := s.stage(oss("1.1.0"))
	must(t, err)
	_, err = s.Retain(needed)
	must(t, err)
	if _, err := os.Stat(s.Programs + "/1.1.0"); err != nil {
		t.Error("programs are removed while they are being published")
	}
	at.remove()

	_, err = s.Retain(needed)
	must(t, err)
	wantPrograms(t, s, "1.0.0", "1.2.0", "1.3.0", "mine")
	if used, err := s.InUse([]string{links}); err != nil || !slices.Equal(used, []string{"1.2.0", "1.3.0"}) {
		t.Errorf("in use are %q, %v", used, err)
	}
	if r, ok := s.ReleaseOf(s.Programs + "/1.3.0/bin/teleport"); !ok || r != oss("1.3.0") {
		t.Errorf("the program is of %v, %v", r, ok)
	}
	// A tree that was exchanged while a process runs from it.
	for name, want := range map[string]string{".staging-1.3.0-4058807607": "1.3.0", ".staging-1.3.0-rc.1-17": "1.3.0-rc.1", ".staging-": "", ".staging-mine-1": ""} {
		if r, ok := s.ReleaseOf(s.Programs + "/" + name + "/bin/teleport (deleted)"); ok != (want != "") || r != (Release{Version: want}) {
			t.Errorf("a process in %s is of %v, %v; want %q", name, r, ok, want)
		}
	}

	// What nothing needs goes from both places; the record first.
	_, err = s.Retain(Needed{Releases: []Release{oss("1.0.0")}})
	must(t, err)
	wantPrograms(t, s, "1.0.0", "mine")
	if entries, _ := filepath.Glob(s.Dir + "/1.*"); !slices.Equal(entries, []string{s.Dir + "/1.0.0"}) {
		t.Errorf("left are %q", entries)
	}

	must(t, s.Clear([]string{s.Programs + "/1.0.0"}, "updates.yaml"))
	wantPrograms(t, s, "1.0.0", "mine")
	if entries, err := os.ReadDir(s.Dir); err == nil {
		t.Errorf("of the records %v are left", entries)
	}
	must(t, s.Clear(nil, "updates.yaml"))
	wantPrograms(t, s, "mine")
}

// An administrator may have the programs on another disk, and a link there.
func TestALinkToTheFolderOfProgramsStays(t *testing.T) {
	s := testApart(t)
	disk := t.TempDir()
	must(t, os.MkdirAll(filepath.Dir(s.Programs), 0o755))
	must(t, os.Symlink(disk, s.Programs))
	tree := publish(t, s, oss("15.1.1"))
	if _, err := os.Stat(filepath.Join(disk, "15.1.1", "bin", "teleport")); err != nil {
		t.Error(err)
	}
	must(t, s.Discard(tree, nil))
	if to, err := os.Readlink(s.Programs); err != nil || to != disk {
		t.Errorf("the link leads to %q, %v", to, err)
	}
}

func TestAHostWithoutAVersionHasNoFolderOfPrograms(t *testing.T) {
	for name, come := range map[string]func(*testing.T, *Store) error{
		"the build is given up": func(t *testing.T, s *Store) error {
			build(t, s, oss("1.1.0"), soundTarball("1.1.0")).Discard()
			return nil
		},
		"the version is of no use": func(t *testing.T, s *Store) error { return s.Discard(publish(t, s, oss("1.1.0")), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			s := testApart(t)
			s.ProcDir = fakeProc(t)
			must(t, come(t, s))
			if _, err := os.Lstat(s.Programs); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the folder of programs stays: %v", err)
			}
		})
	}
}

// In the record, bin is a link for people. Whoever makes it lead elsewhere has root run,
// measure and remove nothing by it.
func TestTheLinkForPeopleIsFollowedByNobody(t *testing.T) {
	s := testApart(t)
	s.ProcDir = fakeProc(t)
	publish(t, s, oss("1.0.0"))
	tree := publish(t, s, oss("1.1.0"))
	before, err := tree.Size()
	must(t, err)
	evil := t.TempDir()
	must(t, os.WriteFile(evil+"/teleport", make([]byte, 1<<20), 0o777))
	must(t, os.Remove(tree.Dir+"/bin"))
	must(t, os.Symlink(evil, tree.Dir+"/bin"))

	must(t, tree.Verify(context.Background()))
	must(t, tree.Smoke(context.Background()))
	if size, err := tree.Size(); err != nil || size != before {
		t.Errorf("the size is %d, %v; want %d", size, err, before)
	}
	if names, err := tree.Binaries(); err != nil || !slices.Contains(names, "tsh") {
		t.Errorf("the programs are %q, %v", names, err)
	}
	_, err = s.Retain(Needed{Releases: []Release{oss("1.0.0")}})
	must(t, err)
	if _, err := os.Stat(tree.Dir); err == nil {
		t.Error("the version stays")
	}
	if _, err := os.Stat(evil + "/teleport"); err != nil {
		t.Errorf("what the link leads to was removed: %v", err)
	}
}

func TestProgramsTakeTheNameFromOnesWithoutARecord(t *testing.T) {
	s := testApart(t)
	must(t, os.MkdirAll(s.Programs+"/15.1.1/bin", 0o755))
	must(t, os.WriteFile(s.Programs+"/15.1.1/bin/stranger", nil, 0o755))
	tree := publish(t, s, oss("15.1.1"))
	wantWhole(t, tree, soundTarball("15.1.1"))
	wantPrograms(t, s, "15.1.1")
}

func TestWhatIsNoFolderIsNotReplacedByPrograms(t *testing.T) {
	s := testApart(t)
	must(t, os.MkdirAll(s.Programs, 0o755))
	must(t, os.WriteFile(s.Programs+"/15.1.1", []byte("somebody's"), 0o644))
	if tree := publish(t, s, oss("15.1.1")); filepath.Base(tree.Programs) != "15.1.1_oss" {
		t.Errorf("the tree is %+v", tree)
	}

	// Of a version that is here: the record stays what it is, for its programs come first.
	tree := publish(t, s, oss("15.1.0"))
	must(t, os.Rename(tree.Programs, tree.Programs+"-moved"))
	must(t, os.Symlink(tree.Programs+"-moved", tree.Programs))
	before, err := os.Stat(tree.Dir)
	must(t, err)
	b := build(t, s, oss("15.1.0"), soundTarball("15.1.0"))
	_, err = b.Publish(Release{}, digestHex(nil))
	b.Discard()
	if err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("error %v", err)
	}
	if after, err := os.Stat(tree.Dir); err != nil || !os.SameFile(before, after) {
		t.Errorf("the record was exchanged without its programs (%v)", err)
	}
	wantPrograms(t, s, "15.1.0", "15.1.0-moved", "15.1.1", "15.1.1_oss")
}

func TestAPlaceOfProgramsThatOthersMayWriteIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root trusts nobody else")
	}
	s := testApart(t)
	must(t, os.MkdirAll(s.Programs, 0o755))
	must(t, os.Chmod(s.Programs, 0o777))
	must(t, os.MkdirAll(s.PartialDir(), 0o755))
	_, err := s.Begin(oss("15.1.1"))
	if err == nil || !strings.Contains(err.Error(), "give it to root alone") {
		t.Errorf("error %v", err)
	}
	wantNothingLeft(t, s)
	wantPrograms(t, s)
}

func TestRoomIsLookedForWhereItIsNeeded(t *testing.T) {
	for name, tc := range map[string]struct {
		mount func(*Store) string
		extra int64
		full  bool
	}{
		"the programs' place is too small":                  {func(s *Store) string { return s.Programs }, 0, true},
		"the record's place is too small for the database":  {func(s *Store) string { return s.Dir }, 8 << 20, true},
		"the record's place is too small for programs only": {func(s *Store) string { return s.Dir }, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := testApart(t)
			dir := tc.mount(s)
			must(t, os.MkdirAll(dir, 0o755))
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2M,mode=755"); err != nil {
				t.Skipf("no file system of our own: %v", err)
			}
			t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
			_, err := s.CheckRoom(16<<20+tc.extra, tc.extra)
			full, ok := errors.AsType[*space.Error](err)
			if ok != tc.full || !ok && err != nil || ok && !strings.HasPrefix(full.Path, dir) {
				t.Errorf("error %v; want a *space.Error of %s: %v", err, dir, tc.full)
			}
		})
	}
}
