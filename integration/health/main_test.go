//go:build hosts

// Package health proves which versions count as healthy: what the watch sees of an agent that fails in each of the
// ways that agents have, what it leaves alone, and how a version that failed waits for its next attempt.
package health

import (
	"testing"

	"teleport-update/integration/scenes"
)

func TestMain(m *testing.M) { scenes.Main(m) }

const (
	updater  = scenes.Updater
	store    = scenes.Store
	programs = scenes.Programs
	patience = scenes.Patience
)

// scene is a host, with the words that these tests have for it.
type scene struct{ *scenes.Scene }

func newScene(t *testing.T) *scene { return &scene{scenes.New(t)} }
