//go:build hosts

// Package rollout has a find server of its own steer real hosts: what they report decides whether a version goes on.
package rollout

import (
	"os"
	"testing"

	"teleport-update/integration/host"
)

func TestMain(m *testing.M) {
	host.Share(1)
	os.Exit(host.Main(m, host.Updater(), host.Find(), host.Agent()))
}
