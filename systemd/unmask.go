package systemd

import (
	"os"
	"path/filepath"
)

// Unmask is the command that takes away what masks a unit: without --runtime, systemctl leaves a mask in /run as it is.
func Unmask(unit string) string { return unmask("/run/systemd/system", unit) }

func unmask(runtime, unit string) string {
	if to, err := os.Readlink(filepath.Join(runtime, unit)); err == nil && to == os.DevNull {
		return "systemctl unmask --runtime " + unit
	}
	return "systemctl unmask " + unit
}
