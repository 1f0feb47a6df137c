//go:build hosts

// Package database proves that the agent's database goes with the version: backups, rollbacks, downgrades, and that no
// row is lost on the way.
package database

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
