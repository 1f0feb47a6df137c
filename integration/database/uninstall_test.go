//go:build hosts

package database

import (
	"strings"
	"testing"

	"teleport-update/integration/scenes"
)

// An agent was here before, and a version migrated its database: the uninstall goes back with the
// database, as a downgrade does, and keeps the one that it exchanges.
func TestAnUninstallAfterAMigrationGoesBackWithTheDatabase(t *testing.T) {
	const before, v = "1.0.0", "1.1.0"
	s := newScene(t)
	a := scenes.PreExistingAgents["by hand"]
	s.RunPreExisting(before, a)
	s.migrating(before, v)
	s.Wants(v)
	s.Enable("--health-window", "1s")
	s.Serves(v)
	s.Whole("the version that came with the updater", s.Live(), 2)
	if plan := s.Must(updater, "uninstall", "--dry-run"); !strings.Contains(plan, "/database-backups") {
		t.Errorf("the dry run does not say what becomes of the database:\n%s", plan)
	}

	s.Must(updater, "uninstall", "--yes")
	s.RunsFrom(a.BinDir + "/teleport")
	s.Whole("the agent of before", s.Live(), 1)
	s.Whole("what is kept", s.Settled("/var/lib/teleport/database-backups/"+v+"/sqlite.db"), 2)
	s.Must("systemctl", "restart", "teleport")
	s.RunsFrom(a.BinDir + "/teleport")
	if s.Exists(store) {
		t.Errorf("%s is still there", store)
	}
}
