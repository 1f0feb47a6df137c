//go:build hosts

package fleetguides

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"teleport-update/packaging"
)

// packages returns a folder with the packages of both programs for this machine.
func packages(t *testing.T) string {
	t.Helper()
	packagesOnce.Do(func() {
		dir := filepath.Join(module, "build", "test", "fleetguides-packages")
		check(t, os.RemoveAll(dir))
		_, err := packaging.Build(t.Context(), packaging.Options{
			Module: module, Out: dir, Version: "1.2.3", Date: time.Unix(1700000000, 0), Arch: []string{runtime.GOARCH},
			Formats: []string{"deb"}, Programs: []string{"teleport-update", "teleport-find"},
		})
		check(t, err)
		packagesDir = dir
	})
	if packagesDir == "" {
		t.Fatal("the packages could not be built")
	}
	return packagesDir
}

var (
	packagesOnce sync.Once
	packagesDir  string
)
