package systemd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// HasUnread reports whether files of a unit changed since systemd read them: by its own word, or because drop-ins in some
// folders are not among those that it has read. It does not look into a folder that is newer than its last reading of all
// units, and so misses the first drop-in of a unit. The drop-ins of some names are left out, and so are those for all units of a
// type: systemd knows them since its version 244 only.
func HasUnread(u Unit, dirs []string, but ...string) bool {
	switch {
	case u.LoadState == "", u.LoadState == "not-found":
		return false
	case u.LoadState != "loaded", u.NeedDaemonReload:
		return u.NeedDaemonReload
	}
	known := slices.Concat(u.DropIns, but)
	for _, dir := range dirs {
		files, err := glob(filepath.Join(dir, u.Name+".d", "*.conf"))
		unread := func(file string) bool {
			same := func(other string) bool { return filepath.Base(other) == filepath.Base(file) }
			info, err := os.Stat(file)
			return err == nil && info.Mode().IsRegular() && !slices.ContainsFunc(known, same)
		}
		if err == nil && slices.ContainsFunc(files, unread) {
			return true
		}
	}
	return false
}

// RecoveryUnread is HasUnread for the recovery. The file of AwaitMounts, which systemd is to read at the next boot, is
// left out, and so is what ForgetMounts took away.
func (u Units) RecoveryUnread(recovery Unit, dirs []string) bool {
	file := u.mountsFile()
	_, err := os.Lstat(file)
	forgotten := errors.Is(err, fs.ErrNotExist) && slices.Contains(recovery.DropIns, file)
	return HasUnread(recovery, dirs, file) && !forgotten
}
