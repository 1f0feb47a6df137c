//go:build hosts

package database

import (
	"strings"
	"testing"

	"teleport-update/integration/scenes"
)

// A version migrated the database: it stays, with the agent that runs, and the backup that the agent before the first enable can read is kept.
func TestAnUninstallAfterAMigrationMovesNoDatabase(t *testing.T) {
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
		t.Errorf("the dry run does not say what becomes of the backup:\n%s", plan)
	}

	run := s.Seen()
	if out := s.Must(updater, "uninstall", "--yes"); !strings.Contains(out, "/var/lib/teleport/database-backups") {
		t.Errorf("it does not name the backup:\n%s", out)
	}
	if got := run.Became(s.Seen()); got != scenes.InPeace {
		t.Errorf("the agent was %s", got)
	}
	s.Whole("the agent that stays", s.Live(), 2)
	s.Whole("what is kept", s.Settled("/var/lib/teleport/database-backups/before-enable/sqlite.db"), 1)
	s.Must("systemctl", "restart", "teleport")
	s.RunsFrom("/usr/local/bin/teleport")
	if s.Exists(store) {
		t.Errorf("%s is still there", store)
	}
}
