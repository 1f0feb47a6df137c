//go:build hosts

package database

import (
	"path/filepath"
	"testing"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// Somebody upgraded the agent of before by hand, where it lies. The uninstall starts it, and it changes the database and dies: today's
// version and its database come back. Once that agent is repaired, the uninstall ends.
func TestAnUninstallTakesBackWhatAnAgentThatDiesDidToTheDatabase(t *testing.T) {
	const before, today, broken = "1.0.0", "1.1.0", "1.2.0"
	s := newScene(t)
	a := scenes.PreExistingAgents["by a package"]
	s.RunPreExisting(before, a)
	s.Sound(today)
	s.Release(release.Spec{Version: broken, Schema: 2, Variant: stamp.MigratesThenExits})
	s.Wants(today)
	s.Enable("--health-window", "1s")
	s.Serves(today)
	s.Put(filepath.Join(s.Unpack(broken), "teleport"), a.BinDir+"/teleport")

	s.Fails(1, "the uninstall is called off, and version "+today+" is in its place again", updater, "uninstall", "--yes")
	s.Serves(today)
	s.Whole("today's version", s.Live(), 1)
	if r := s.Status(); r.State != "idle" {
		t.Errorf("the state is %s: %s", r.State, r.Explanation)
	}
	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Serves(today)
	if s.Exists("/var/lib/teleport/database-backups") {
		t.Error("a backup of the database is left, which is live")
	}

	s.Put(filepath.Join(s.Unpack(before), "teleport"), a.BinDir+"/teleport")
	s.Must(updater, "uninstall", "--yes")
	s.RunsFrom(a.BinDir + "/teleport")
	if s.Exists(store) || s.Exists("/var/lib/teleport/database-backups") {
		t.Error("the store, or a backup of the live database, is left")
	}
}
