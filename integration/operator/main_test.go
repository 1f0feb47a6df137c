//go:build hosts

// Package operator proves what a person says to the updater and what it says to them: disable, pin, locks, wrong usage,
// an agent that a person stops meanwhile, and status.
package operator

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
	patience = scenes.Patience
)

// scene is a host, with the words that these tests have for it.
type scene struct{ *scenes.Scene }

func newScene(t *testing.T) *scene { return &scene{scenes.New(t)} }
