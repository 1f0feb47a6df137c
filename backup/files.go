package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"teleport-update/internal/regular"
)

// The files of a backup folder.
const (
	FileName = "sqlite.db"
	metaName = "backup.yaml"
)

// sidecars are files that SQLite may keep beside a database. They belong to that one file.
var sidecars = [...]string{"-journal", "-wal", "-shm"}

// openOwn opens a file of the database for reading, see own.
func openOwn(path string) (*os.File, fs.FileInfo, error) { return openFile(path, own) }

// openCopied opens the database of a backup, which may have a second name: nobody writes
// it, no journal belongs to it, and its folder is root's.
func openCopied(path string) (*os.File, fs.FileInfo, error) { return openFile(path, file) }

func openFile(path string, check func(string, fs.FileInfo) error) (*os.File, fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, nil, err
	}
	if err := check(path, info); err != nil {
		return nil, nil, err
	}
	f, info, err := regular.Open(path, regular.NoLink)
	if err != nil {
		return nil, nil, err
	}
	if err := check(path, info); err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func lstatOwn(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	return info, own(path, info)
}

// own refuses a path that is not a regular file with this one name. The folder may belong to a user who could otherwise have root read or
// write somebody else's file.
func own(path string, info fs.FileInfo) error {
	if err := file(path, info); err != nil {
		return err
	}
	if n := info.Sys().(*syscall.Stat_t).Nlink; n > 1 {
		return fmt.Errorf("%s has %d names (hard links); a database must have one, because its journal is found by name", path, n)
	}
	return nil
}

// file refuses a path that is not a regular file.
func file(path string, info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a symbolic link; the database must be in its folder itself", path)
	case mode.IsDir():
		return fmt.Errorf("%s is a folder, not a database file", path)
	case !mode.IsRegular():
		return fmt.Errorf("%s is not a regular file (%s)", path, mode.Type())
	}
	return nil
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
