// Package acts has what other people and programs do to a host, before its agent changes its version and while it does,
// and what must be true of the host then. Whatever they do, and whenever, an agent runs on the database that belongs to
// it, and status says what is there.
//
// Combinations are found, not listed: each moment of a transaction, with versions that are healthy and that fail, meets
// each act, and acts meet one another. Whoever adds an act adds one entry to a table. docs/development/reliability.md has
// the figures.
package acts

import (
	"testing"

	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
)

// Main is for the TestMain of a sweep. So many of its hosts share a processor: they wait
// far more than they compute.
func Main(m *testing.M, hostsPerProcessor int) int {
	host.Share(hostsPerProcessor)
	return host.Main(m, host.Updater(), host.Find(), host.Agent(), scenes.Endat)
}

const (
	updater  = scenes.Updater
	store    = scenes.Store
	programs = scenes.Programs
	linkDir  = scenes.LinkDir
	unitFile = scenes.UnitFile
)
