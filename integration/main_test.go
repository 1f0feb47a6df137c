//go:build hosts

// Package integration proves the updater on real hosts: a booted systemd, the
// built programs, an agent that behaves as Teleport's does, and a find server
// that can be told to fail. Every test asserts on the host itself: links, unit
// state, what the main process executes, the journal, status.
package integration

import (
	"os"
	"testing"

	"teleport-update/integration/host"
)

func TestMain(m *testing.M) {
	host.Share(3)
	os.Exit(host.Main(m, host.Updater(), host.Find(), host.Agent()))
}
