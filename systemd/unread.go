package systemd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// HasUnread reports whether files of a unit changed since systemd read them: systemd says so itself, or a file in a folder with
// higher precedence (dirs begins with the highest) would replace the unit file that systemd has read, or there are drop-ins that
// it has not read. It does not look into a folder that is newer than systemd's last reading of all units, and so misses the
// first drop-in of a unit. The drop-ins in but are left out, and so are those for all units of a type: systemd knows them since
// its version 244 only.
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

// Outranking returns the file that systemd will use for a unit, instead of the loaded one, once it reads all units again: a
// unit file, or a mask, in a folder with higher precedence. It is empty if none shows. systemd itself does not report such a
// file, and ignores a link to nothing. Folders with lower precedence are not searched.
func Outranking(u Unit, dirs []string) (path string, masks bool) {
	if u.LoadState != "loaded" || u.FragmentPath == "" {
		return "", false
	}
	rank := slices.Index(dirs, filepath.Dir(u.FragmentPath))
	if rank < 0 {
		return "", false // systemd has it by a link, or by a folder that is not in dirs
	}
	for _, dir := range dirs[:rank] {
		path := filepath.Join(dir, u.Name)
		is, err := os.Stat(path)
		if err != nil || is.IsDir() {
			continue
		}
		if loaded, err := os.Stat(u.FragmentPath); err == nil && os.SameFile(is, loaded) {
			return "", false // another name of the loaded file
		}
		return path, is.Size() == 0 // also true for a link to /dev/null
	}
	return "", false
}

// RecoveryUnread is HasUnread for the recovery. The file of AwaitMounts, which systemd is to read at the next boot, is
// left out, also after ForgetMounts removed it.
func (u Units) RecoveryUnread(recovery Unit, dirs []string) bool {
	file := u.mountsFile()
	_, err := os.Lstat(file)
	forgotten := errors.Is(err, fs.ErrNotExist) && slices.Contains(recovery.DropIns, file)
	return HasUnread(recovery, dirs, file) && !forgotten
}
