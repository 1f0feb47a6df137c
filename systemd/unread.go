package systemd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// HasUnread reports whether files of a unit changed since systemd read them: by its own word, or because another file in some
// folders, the ones that rank first before the others, ranks above the one that it has read, or because drop-ins there
// are not among those that it has read. It does not look into a folder that is newer than its last reading of all
// units, and so misses the first drop-in of a unit. The drop-ins of some names are left out, and so are those for all units of a
// type: systemd knows them since its version 244 only.
func HasUnread(u Unit, dirs []string, but ...string) bool {
	switch {
	case u.LoadState == "", u.LoadState == "not-found":
		return false
	case u.LoadState != "loaded", u.NeedDaemonReload:
		return u.NeedDaemonReload
	}
	if path, _ := Outranking(u, dirs); path != "" {
		return true
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

// Outranking is the file that systemd takes for a unit, instead of the one that it has loaded, once it reads all units again: a
// unit file, or a mask, in a folder that ranks above. It is empty if none shows. systemd does not say itself that there
// is one, and passes over a link to nothing. Folders that rank below are not looked into.
func Outranking(u Unit, dirs []string) (path string, masks bool) {
	if u.LoadState != "loaded" || u.FragmentPath == "" {
		return "", false
	}
	rank := slices.Index(dirs, filepath.Dir(u.FragmentPath))
	if rank < 0 {
		return "", false // systemd has it by a link, or by a folder that nobody knows here
	}
	for _, dir := range dirs[:rank] {
		path := filepath.Join(dir, u.Name)
		is, err := os.Stat(path)
		if err != nil || is.IsDir() {
			continue
		}
		if loaded, err := os.Stat(u.FragmentPath); err == nil && os.SameFile(is, loaded) {
			return "", false // another name of it
		}
		return path, is.Size() == 0 // of a link to /dev/null, too
	}
	return "", false
}

// RecoveryUnread is HasUnread for the recovery. The file of AwaitMounts, which systemd is to read at the next boot, is
// left out, and so is what ForgetMounts took away.
func (u Units) RecoveryUnread(recovery Unit, dirs []string) bool {
	file := u.mountsFile()
	_, err := os.Lstat(file)
	forgotten := errors.Is(err, fs.ErrNotExist) && slices.Contains(recovery.DropIns, file)
	return HasUnread(recovery, dirs, file) && !forgotten
}
