package systemd

import (
	"os"
	"path/filepath"

	"teleport-update/internal/layout"
)

// Unmask is the command that takes away what masks a unit. Without --runtime, systemctl leaves a mask in /run as it is. A unit
// that is masked in both places needs the command for /etc first, which counts more, and then the other.
func Unmask(unit string) string { return unmask(layout.ConfigDir, "/run/systemd/system", unit) }

func unmask(config, runtime, unit string) string {
	masks := func(dir string) bool {
		to, err := os.Readlink(filepath.Join(dir, unit))
		return err == nil && to == os.DevNull
	}
	if masks(runtime) && !masks(config) {
		return "systemctl unmask --runtime " + unit
	}
	return "systemctl unmask " + unit
}
