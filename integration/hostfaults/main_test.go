//go:build hosts

// Package hostfaults kills the updater at every call on running hosts, and cuts the power of whole hosts: transactions,
// recoveries and take-overs of packages. docs/development/reliability.md has its figures.
package hostfaults

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

func sceneOn(t *testing.T, o host.Options) *scene { return &scene{scenes.On(t, o)} }
