//go:build hosts

package lifecycle

import (
	"slices"
	"testing"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// The story of the README: enable, start, update, a broken release rolled back.
func TestANewcomerEnablesUpdatesAndSeesABrokenReleaseRolledBack(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.Release(release.Spec{Version: "1.2.0", Variant: stamp.ExitsAtStart})

	s.RunsOn("1.0.0")

	s.Wants("1.1.0")
	before := s.Show("teleport", "InvocationID")
	s.Must(updater, "update")
	s.Serves("1.1.0")
	if after := s.Show("teleport", "InvocationID"); after != before {
		t.Errorf("the unit was restarted for a reload that works")
	}

	s.Wants("1.2.0")
	s.Fails(1, "version 1.2.0 was not healthy and was rolled back", updater, "update")
	s.Serves("1.1.0")
	r := s.Status()
	if r.State != "backing_off" || scenes.Text(r.FailedVersion) != "1.2.0" || scenes.Text(r.LastResult) != "rolled_back" || r.LastError == nil {
		t.Errorf("status says %s, failed %s, %s: %s", r.State, scenes.Text(r.FailedVersion), scenes.Text(r.LastResult), scenes.Text(r.LastError))
	}
	// For its next attempt, which is then no download.
	if names, _ := s.Names(store); !slices.Contains(names, "1.2.0") {
		t.Errorf("the version that failed is not kept: %v", names)
	}
}
