//go:build hosts

package faults

import (
	"os"
	"testing"

	"teleport-update/integration/host"
)

// newWorld is an empty World in memory, if there is any.
func newWorld(t testing.TB) *World {
	t.Helper()
	updater, err := host.Build(t.Context(), host.Updater())
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(t.Context(), Options{Updater: updater, Dir: scratch(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// scratch is a folder in memory where programs can be executed, else an
// ordinary one.
func scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "faults-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
