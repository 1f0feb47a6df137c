//go:build hosts

// Package guides proves the ways in which people get the updater: the install
// script, images, media that are carried to hosts without a network, automation
// of their own, and every command that the README and docs/ print. All of it runs
// on real hosts against servers that the host knows by the names in the guides.
package guides

import (
	"testing"

	"teleport-update/integration/scenes"
)

func TestMain(m *testing.M) { scenes.Main(m) }
