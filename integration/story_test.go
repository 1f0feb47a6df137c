//go:build hosts

package integration

import (
	"strings"
	"testing"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/release"
)

// The story of the README: enable, start, update, a broken release rolled back.
func TestANewcomerEnablesUpdatesAndSeesABrokenReleaseRolledBack(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0", "1.1.0")
	s.release(release.Spec{Version: "1.2.0", Variant: stamp.ExitsAtStart})

	s.running("1.0.0")

	s.wants("1.1.0")
	before := s.Show("teleport", "InvocationID")
	s.Must(updater, "update")
	s.serves("1.1.0")
	if after := s.Show("teleport", "InvocationID"); after != before {
		t.Errorf("the unit was restarted for a reload that works")
	}

	s.wants("1.2.0")
	s.fails(1, "version 1.2.0 did not hold and was rolled back", updater, "update")
	s.serves("1.1.0")
	r := s.status()
	if r.State != "backing_off" || text(r.FailedVersion) != "1.2.0" || text(r.LastResult) != "rolled_back" || r.LastError == nil {
		t.Errorf("status says %s, failed %s, %s: %s", r.State, text(r.FailedVersion), text(r.LastResult), text(r.LastError))
	}
	if names, _ := s.Names(store); strings.Contains(strings.Join(names, " "), "1.2.0") {
		t.Errorf("the version that failed still takes space: %v", names)
	}
}
