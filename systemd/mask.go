package systemd

import (
	"os"
	"path/filepath"

	"teleport-update/internal/layout"
)

// maskFolders are where people mask units, the one that counts more first: for good, and until the next boot.
var maskFolders = []string{layout.ConfigDir, "/run/systemd/system"}

// MaskOf is the file by which people masked a unit: a link to /dev/null, or an empty file (systemd.unit(5)); the one that
// counts if there are two. It is empty if no such file is there.
func MaskOf(unit string) string {
	path, _ := maskIn(maskFolders, unit)
	return path
}

// maskIn is MaskOf in folders. byLink says how: systemctl takes links away, and leaves files.
func maskIn(folders []string, unit string) (path string, byLink bool) {
	for _, dir := range folders {
		path := filepath.Join(dir, unit)
		if to, err := os.Readlink(path); err == nil && to == os.DevNull {
			return path, true
		}
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
			return path, false
		}
	}
	return "", false
}

// Unmask is the command that takes away what masks a unit. Without --runtime, systemctl leaves a mask in /run as it is. A unit
// that is masked in both places needs the command for /etc first, and then the other.
func Unmask(unit string) string { return unmask(maskFolders, unit) }

func unmask(folders []string, unit string) string {
	switch path, byLink := maskIn(folders, unit); {
	case path != "" && !byLink:
		return "rm " + path + " && systemctl daemon-reload"
	case path != "" && filepath.Dir(path) != folders[0]:
		return "systemctl unmask --runtime " + unit
	}
	return "systemctl unmask " + unit
}
