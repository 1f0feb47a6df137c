//go:build hosts

package selfupdate

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
)

// released are the releases with which today's programs have to get along, and the
// commits that they were built from.
var released = []struct{ version, commit string }{
	{"0.1.0", "5e6dbc73999acdc583dcd8f0c00ba5d537ddccb9"},
}

// today is the version of this source among them: later than all of them.
const today = "99.0.0"

// releasedUpdater is the updater of a release, built from its commit. In a copy of the
// source that has not got its history nothing is tested.
func (s *scene) releasedUpdater(v, commit string) string {
	s.T.Helper()
	module, err := host.Module()
	s.Check(err)
	archive, err := exec.CommandContext(s.T.Context(), "git", "-C", module, "archive", "--format=tar", commit).Output()
	if err != nil {
		s.T.Skipf("SKIPPED, nothing was tested: commit %s of release %s is not here: %v", commit, v, err)
	}
	dir := s.T.TempDir()
	unpack := exec.CommandContext(s.T.Context(), "tar", "-x", "-C", dir)
	unpack.Stdin = bytes.NewReader(archive)
	if out, err := unpack.CombinedOutput(); err != nil {
		s.T.Fatalf("tar: %v\n%s", err, out)
	}
	if named, err := os.ReadFile(filepath.Join(dir, "packaging", "VERSION")); err != nil || string(named) != v+"\n" {
		s.T.Fatalf("commit %s is version %q, %v; want %s", commit, named, err, v)
	}
	return s.Program(host.Program{Name: filepath.Join(dir, "teleport-update"), Package: "./cmd/teleport-update", Version: v, Module: dir})
}

// What a release has begun, today's updater ends, and the other way round: whichever of
// them a boot and the tick after it find.
func TestTodaysUpdaterAndEachReleaseRescueOneAnother(t *testing.T) {
	t.Parallel()
	for _, r := range released {
		t.Run(r.version, func(t *testing.T) {
			s := bareScene(t, host.Options{})
			older, newer := s.releasedUpdater(r.version, r.commit), s.stampedUpdater(today)
			s.packaged(older)
			s.carries("1.0.0", newer)
			s.Sound("1.1.0")
			s.RunsOn("1.0.0")
			s.Wants("1.1.0")
			s.KilledInMidWatch("1.1.0") // of today's, which the active version carries
			s.endedBy(r.version)
			s.killedByItself() // of the release's, which the package has
			s.packaged(newer)
			s.endedBy(today)
		})
	}
}

// endedBy asserts that the package's updater, of that version, undoes the open transaction
// at a boot, and that a tick closes it.
func (s *scene) endedBy(v string) {
	s.T.Helper()
	if says := s.Must(s.Path, "version"); !strings.Contains(says, v) {
		s.T.Errorf("the boot runs %s; want %s", says, v)
	}
	if s.Phase() == "" {
		s.T.Fatal("the journal is closed: the test shows nothing")
	}
	s.Check(s.Reboot(s.T.Context()))
	if got := s.Phase(); got != "restored" {
		s.T.Errorf("after the boot the journal says %q", got)
	}
	s.closed()
}

// A host that was enabled with a release comes to today's updater with the version that
// brings it, and a version later today's is what its timer runs.
func TestAHostOfEachReleaseUpdatesToTodaysUpdater(t *testing.T) {
	t.Parallel()
	for _, r := range released {
		t.Run(r.version, func(t *testing.T) {
			s := sceneOn(t, host.Options{})
			older, newer := s.releasedUpdater(r.version, r.commit), s.stampedUpdater(today)
			s.Put(older, updater)
			s.Sound("1.0.0", "1.2.0")
			s.carries("1.1.0", newer)
			s.RunsOn("1.0.0", "--health-window", "1s")
			before := s.Status()
			for _, v := range []string{"1.1.0", "1.2.0"} {
				s.Wants(v)
				if code := s.Tick(); code != 0 {
					t.Fatalf("the tick ends with %d:\n%s", code, s.Log("teleport-update.service"))
				}
				s.Serves(v)
			}
			if !s.hasContentOf(fixedCopy, newer) {
				t.Error("the timer goes on with the release's updater")
			}
			s.StatusIs("idle")
			// The release's own program judges the units by what it would write.
			s.Must(fixedCopy, "verify")
			if after := s.Status(); scenes.Text(after.Proxy) != scenes.Text(before.Proxy) || !after.UpdatesEnabled {
				t.Errorf("updates of %s, %t, became those of %s", scenes.Text(after.Proxy), after.UpdatesEnabled, scenes.Text(before.Proxy))
			}
		})
	}
}
