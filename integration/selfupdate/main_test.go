//go:build hosts

// Package selfupdate proves which updater runs a command: the active version's own where it is newer, and the one that
// was called where that fails.
package selfupdate

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
	patience = scenes.Patience
)

// scene is a host, with the words that these tests have for it.
type scene struct{ *scenes.Scene }

func newScene(t *testing.T) *scene { return &scene{scenes.New(t)} }

func sceneOn(t *testing.T, o host.Options) *scene { return &scene{scenes.On(t, o)} }

func bareScene(t *testing.T, o host.Options) *scene { return &scene{scenes.Bare(t, o)} }
