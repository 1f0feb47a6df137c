//go:build hosts

// Package recovery proves that a transaction which was killed, interrupted or cut off by a boot is brought to an end: by the
// next run, or by the recovery at boot before the agent starts.
package recovery

import (
	"testing"

	"teleport-update/integration/scenes"
)

func TestMain(m *testing.M) { scenes.Main(m) }

const (
	updater  = scenes.Updater
	store    = scenes.Store
	programs = scenes.Programs
	linkDir  = scenes.LinkDir
	unitFile = scenes.UnitFile
	patience = scenes.Patience
)

// scene is a host, with the words that these tests have for it.
type scene struct{ *scenes.Scene }

func newScene(t *testing.T) *scene { return &scene{scenes.New(t)} }
