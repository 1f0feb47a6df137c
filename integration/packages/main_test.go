//go:build hosts

// Package packages holds the built packages to what distributions ask of them, and
// proves what they do on hosts: installed, upgraded, removed and purged by apt and
// dnf, in the middle of a transaction, in an image.
package packages

import (
	"os"
	"testing"

	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
)

func TestMain(m *testing.M) {
	host.Share(2)
	code := host.Main(m, host.Updater(), host.Find(), host.Agent())
	if builtIn != "" {
		os.RemoveAll(builtIn)
	}
	os.Exit(code)
}

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

func bareScene(t *testing.T, o host.Options) *scene { return &scene{scenes.Bare(t, o)} }
