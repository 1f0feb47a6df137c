//go:build hosts

// Package fleetguides runs the pages of docs/ that need more than one host, or servers of other people's: the first
// fleet, production, PostgreSQL. Every command is run as it is printed, on booted hosts that share a network and
// know each other by the names in the pages.
package fleetguides

import (
	"testing"

	"teleport-update/integration/scenes"
)

func TestMain(m *testing.M) { scenes.Main(m) }
