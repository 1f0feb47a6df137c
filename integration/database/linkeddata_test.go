//go:build hosts

package database

import (
	"strings"
	"testing"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// An administrator may have put the agent's data on another disk, and left a link:
// what runs from there is known by its real path alone.
func TestADataFolderThatIsALink(t *testing.T) {
	s := newScene(t)
	s.migrating("1.0.0", "1.1.0", "1.2.0")
	s.Release(release.Spec{Version: "1.3.0", Schema: 4, Variant: stamp.ExitsAtStart})
	s.Writes("wal", 100)
	s.Must("sh", "-ec", "mkdir -p /srv/disk /var/lib/teleport; mv /var/lib/teleport /srv/disk/; ln -s /srv/disk/teleport /var/lib/teleport; mkdir /srv/disk/programs; ln -s /srv/disk/programs /opt/teleport-update")
	s.RunsOn("1.0.0")
	if got := s.Executable("1.0.0"); !strings.HasPrefix(got, "/srv/disk/") {
		t.Fatalf("the agent executes %s: this test shows nothing", got)
	}
	s.Updates("1.1.0")
	s.Must(updater, "verify")

	// What was cut off in the middle of the watch is watched once more, and is healthy.
	s.Wants("1.2.0")
	update := s.MidWatch("1.2.0")
	s.KillsMain(scenes.SwitchUnits)
	s.Ends(update, 1)
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick after the cut ends with %d", code)
	}
	s.Serves("1.2.0")
	if log := s.Logged(); !strings.Contains(log, "watching the agent once more") {
		t.Errorf("the agent was not watched once more:\n%s", log)
	}

	s.Wants("1.3.0")
	if r := s.Try(updater, "update"); r.Code != 1 {
		t.Errorf("the update to a version that fails: exit code %d\n%s", r.Code, r.Stderr)
	}
	s.Serves("1.2.0")
	s.Must(updater, "rollback")
	s.Serves("1.1.0")
}
