//go:build hosts

// Package lifecycle tells the life of a host with the updater: enabled, updated by the timer, booted, and left as it
// was by uninstall. The story of the README is here.
package lifecycle

import (
	"testing"

	"teleport-update/integration/host"
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

func sceneOn(t *testing.T, o host.Options) *scene { return &scene{scenes.On(t, o)} }
