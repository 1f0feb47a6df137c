//go:build hosts

// Package others lets other people and programs act on a host while its agent changes its version: configuration
// management copies a file, a backup reads the database, a mount goes away, systemd is not there for a moment, the
// agent's own user means harm. Whatever they do, and whenever, an agent runs on the database that belongs to it.
//
// Combinations are found, not listed: each moment of a transaction, with a version that is healthy and one that fails, meets
// each action. Whoever adds an action adds one entry to a table. docs/development/reliability.md has the figures.
package others

import (
	"os"
	"testing"

	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
)

func TestMain(m *testing.M) {
	host.Share(2)
	os.Exit(host.Main(m, host.Updater(), host.Find(), host.Agent(), scenes.Endat))
}

const (
	updater  = scenes.Updater
	store    = scenes.Store
	programs = scenes.Programs
	linkDir  = scenes.LinkDir
	unitFile = scenes.UnitFile
	patience = scenes.Patience
)
