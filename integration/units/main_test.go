//go:build hosts

// Package units proves what a change of version does about other units of the host: those that the agent's unit and the
// recovery need, those that start and stop with them, and those whose files systemd has not read.
package units

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
