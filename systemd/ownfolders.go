package systemd

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ownFolders maps settings to the parents of the folders that systemd makes for the unit and gives to its user.
var ownFolders = map[string]string{"StateDirectory": "/var/lib", "RuntimeDirectory": "/run", "CacheDirectory": "/var/cache",
	"LogsDirectory": "/var/log"}

// FolderParent returns the parent of the folders that systemd makes for a unit with a setting. It is empty for other settings.
func FolderParent(setting string) string {
	if setting == "ConfigurationDirectory" { // root's
		return "/etc"
	}
	return ownFolders[setting]
}

// ownFolder is a folder that systemd makes for the unit.
type ownFolder struct {
	path, setting string
	lenient       bool // a file may be there (ConfigurationDirectory=): only a file above it keeps systemd from starting the unit
}

// parseOwnFolders returns the folders that have to exist, or be made, before systemd executes a process of the unit.
func parseOwnFolders(p properties) (all []ownFolder) {
	for name, above := range ownFolders {
		for _, folder := range property[[]string](p, name) {
			all = append(all, ownFolder{filepath.Join(above, folder), name + "=" + folder, false})
		}
	}
	for _, folder := range property[[]string](p, "ConfigurationDirectory") {
		all = append(all, ownFolder{filepath.Join("/etc", folder), "ConfigurationDirectory=" + folder, true})
	}
	return all
}

// blockedFolder returns the setting of a folder that systemd cannot make because it, or a path above it, is a file
// (233/RUNTIME_DIRECTORY, 238 to 241). It is empty if none shows. A file that a mount will hide is left out: systemd mounts
// the file system first.
func blockedFolder(folders []ownFolder, isToBeMounted func(path string) bool) string {
	if len(folders) == 0 {
		return ""
	}
	setting, _ := within(func() (string, error) {
		for _, f := range folders {
			info, err := os.Stat(f.path)
			isFile := err == nil && !info.IsDir() && !f.lenient
			if (isFile || errors.Is(err, unix.ENOTDIR)) && !isToBeMounted(f.path) {
				return f.setting, nil
			}
		}
		return "", nil
	})
	return setting
}
