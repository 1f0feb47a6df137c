package versions

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A claim is another process's, which may be killed.
func TestWhatACommandClaimsStaysUntilTheCommandEnds(t *testing.T) {
	s := testStore(t)
	s.ProcDir = fakeProc(t)
	publish(t, s, oss("1.0.0"))
	tree := publish(t, s, oss("1.1.0"))
	needed := Needed{Releases: []Release{oss("1.0.0")}}

	claim := exec.Command("flock", "--shared", "--no-fork", tree.Dir, "sleep", "infinity")
	must(t, claim.Start())
	t.Cleanup(func() { claim.Process.Kill() })
	for claimed := false; !claimed; time.Sleep(time.Millisecond) {
		folder, err := lockFolder(tree.Dir, unix.LOCK_EX|unix.LOCK_NB)
		if claimed = err != nil; !claimed {
			folder.Close()
		}
	}
	if names := keptNames(t, s, needed); !slices.Contains(names, "1.1.0") {
		t.Fatalf("a claimed version was removed: %v are left", names)
	}
	must(t, claim.Process.Kill())
	claim.Wait()
	if names := keptNames(t, s, needed); slices.Contains(names, "1.1.0") {
		t.Errorf("a killed command keeps its version: %v are left", names)
	}
}

func TestAReleaseIsClaimedFromTheMomentItCanBeFound(t *testing.T) {
	s := testStore(t)
	s.ProcDir = fakeProc(t)
	publish(t, s, oss("1.0.0"))
	needed := Needed{Releases: []Release{oss("1.0.0")}}
	var claim Claim
	data := soundTarball("1.1.0")
	b := build(t, s, oss("1.1.0"), data)
	must(t, claim.Take(b.Dir()))
	tree, err := b.Publish(Release{}, digestHex(data))
	must(t, err)
	for range 2 {
		if names := keptNames(t, s, needed); !slices.Contains(names, "1.1.0") {
			t.Fatalf("what was just published is removed: %v are left", names)
		}
		must(t, claim.Take(tree.Dir)) // in place of the first one
	}
	claim.End()
	if names := keptNames(t, s, needed); slices.Contains(names, "1.1.0") {
		t.Errorf("a claim that was released keeps its version: %v are left", names)
	}
	if err := claim.Take(tree.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a removed version is claimed: %v", err)
	}
}

// Everybody who may read a version's folder can lock it, and must not stop updates by that.
func TestAFolderThatSomebodyKeepsLockedStopsNobody(t *testing.T) {
	s := testStore(t)
	tree := publish(t, s, oss("1.1.0"))
	theirs, err := lockFolder(tree.Dir, unix.LOCK_EX)
	must(t, err)
	defer theirs.Close()
	var claim Claim
	taken := make(chan error, 1)
	go func() { taken <- claim.Take(tree.Dir) }()
	select {
	case err := <-taken:
		must(t, err)
	case <-time.After(time.Minute):
		t.Fatal("it still waits")
	}
}

// Who waits for a folder that is being removed must not take what has its inode for a
// version.
func TestAFolderThatLostItsNameIsNotClaimed(t *testing.T) {
	s := testStore(t)
	tree := publish(t, s, oss("1.1.0"))
	removal, err := lockFolder(tree.Dir, unix.LOCK_EX)
	must(t, err)
	took := make(chan error)
	go func() {
		_, err := lockFolder(tree.Dir, unix.LOCK_SH)
		took <- err
	}()
	var id unix.Stat_t
	must(t, unix.Fstat(int(removal.Fd()), &id))
	waiting := regexp.MustCompile(fmt.Sprintf(`-> FLOCK .*:%d 0 EOF`, id.Ino))
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		locks, err := os.ReadFile("/proc/locks")
		must(t, err)
		waits = waiting.Match(locks)
	}
	must(t, os.Rename(tree.Dir, tree.Dir+".gone"))
	must(t, removal.Close())
	if err := <-took; !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that lost its name is claimed: %v", err)
	}
}
