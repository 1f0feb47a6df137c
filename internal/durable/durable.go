// Package durable changes files so that a crash or a power cut leaves either
// the old state or the new one.
//
// A change is durable when its data is on stable storage, it carries its final
// name, and the folder that holds the name is on stable storage too. Every
// function here returns only then, except the two whose names say otherwise:
// RelinkNoSync and UnlinkNoSync leave the folder to SyncDir, so that many links in one
// folder cost one sync.
//
// Temporary names start with ".tmp-" and sit beside their target, so that the
// rename never crosses a file system; one left behind by a crash is harmless
// and CleanTemp removes it.
//
// A failed sync is final: the kernel may already have dropped the pages, so the
// file must be written again from its first byte, never synced a second time.
package durable

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const tempPrefix = ".tmp-"

// WriteFile replaces the file at path with data and the given permission bits, regardless of the
// umask. A file or link at path is replaced atomically; a link is not followed. The folder must
// exist.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	return CopyFile(path, bytes.NewReader(data), mode)
}

// CopyFile is WriteFile with the content of r, for content too large for memory.
func CopyFile(path string, r io.Reader, mode fs.FileMode) error {
	err := replace(path, func(f *os.File) error {
		if _, err := io.Copy(f, r); err != nil {
			return err
		}
		return f.Chmod(mode)
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// replace puts a new file in the place of the one at path. fill writes its content and sets its
// attributes.
func replace(path string, fill func(*os.File) error) (err error) {
	f, err := createTemp(path)
	if err != nil {
		return withoutPath(err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = withoutPath(err)
		}
	}()
	if err = fill(f); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// MkdirTemp makes a new, empty folder beside path under a temporary name, for this user
// only. The caller fills it, syncs it and gives it its name with Rename.
func MkdirTemp(path string) (string, error) {
	temp := tempName(path)
	return temp, os.Mkdir(temp, 0o700)
}

// CreateTemp opens a new, empty file beside path under a temporary name, for
// readers of this user only. It is for content that WriteFile cannot take in
// one piece: the caller fills it, syncs it and gives it its name with Replace
// or Rename.
func CreateTemp(path string) (*os.File, error) {
	f, err := createTemp(path)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, withoutPath(err))
	}
	return f, nil
}

func createTemp(path string) (*os.File, error) {
	return os.OpenFile(tempName(path), os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
}

// withoutPath drops the temporary names in errors of os: they are of no use, and the caller names
// the file that is meant.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}

// RelinkNoSync makes path a symbolic link to target, replacing a file or link of that
// name in one step. The folder is not synced: call SyncDir after the last link.
func RelinkNoSync(target, path string) error {
	temp := tempName(path)
	if err := os.Symlink(target, temp); err != nil {
		return fmt.Errorf("link %s: %w", path, withoutPath(err))
	}
	if err := os.Rename(temp, path); err != nil {
		os.Remove(temp)
		return fmt.Errorf("link %s: %w", path, withoutPath(err))
	}
	return nil
}

// UnlinkNoSync removes the file or link at path; a missing one is fine. The folder is not synced:
// call SyncDir after the last one.
func UnlinkNoSync(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Remove removes the file or link at path, durably. A missing one is fine.
func Remove(path string) error {
	if err := UnlinkNoSync(path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// RemoveAll removes path with its content. The name goes first, in one durable rename to a
// temporary one, so that a crash in the middle never leaves half a tree under a name that means a
// whole one. A power cut afterwards brings nothing back.
func RemoveAll(path string) error {
	temp := tempName(path)
	if err := os.Rename(path, temp); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if err := SyncDir(filepath.Dir(path)); err != nil {
		return err
	}
	return RemoveTemp(temp)
}

// RemoveTemp removes a file, or a tree, whose name stands for nothing whole: its parts may go in
// any order. A power cut afterwards does not bring it back, because the caller may be the last to
// know that it is not needed. A missing one is fine.
func RemoveTemp(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// RemoveEmpty removes an empty folder, durably. A folder with content, and a link, stay; neither
// is an error, nor is a missing folder.
func RemoveEmpty(dir string) error {
	err := unix.Rmdir(dir)
	switch {
	case err == nil:
		return SyncDir(filepath.Dir(dir))
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENOENT):
		return nil
	}
	return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
}

// Rename moves a file or tree to a new name that must not exist yet, and syncs both folders. The
// file or tree must be on stable storage already. It never replaces: a name that is taken is an
// error that matches fs.ErrExist.
func Rename(from, to string) error {
	if err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return syncBoth(from, to)
}

// Replace is Rename onto a name that may exist: it replaces a file or an empty folder there in the
// same step.
func Replace(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncBoth(from, to)
}

// Exchange swaps the names of two files or trees in one step and syncs both
// folders.
func Exchange(a, b string) error {
	if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
		return &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
	}
	return syncBoth(a, b)
}

// MkdirAll creates the folder and its missing parents with the given permission bits, regardless
// of the umask, each durably. Folders that exist keep theirs.
func MkdirAll(path string, mode fs.FileMode) error {
	// With its final mode: if a crash prevents the change of mode, which only a restrictive umask
	// needs, nothing repairs it.
	err := os.Mkdir(path, mode)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path {
		if err := MkdirAll(filepath.Dir(path), mode); err != nil {
			return err
		}
		err = os.Mkdir(path, mode)
	}
	switch {
	case err == nil:
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
		if err := SyncDir(path); err != nil {
			return err
		}
		return SyncDir(filepath.Dir(path))
	case errors.Is(err, fs.ErrExist):
		info, err := os.Stat(path)
		if err == nil && !info.IsDir() {
			err = &fs.PathError{Op: "mkdir", Path: path, Err: unix.ENOTDIR}
		}
		return err
	}
	return err
}

// Touch sets a file's times to now. They need not survive a power cut, so it syncs nothing.
func Touch(path string) error { return os.Chtimes(path, time.Now(), time.Now()) }

// SyncDir puts the names in a folder on stable storage.
func SyncDir(dir string) error {
	return SyncFile(dir)
}

// SyncFile puts the content of a file, or the names in a folder, on stable
// storage.
func SyncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// CleanTemp removes the leftovers of interrupted changes in dir, but for spares. The caller must hold
// the lock that keeps other writers out of dir.
func CleanTemp(dir string) error {
	return cleanTemp(dir, func(fs.DirEntry) bool { return true })
}

// CleanTempFiles is CleanTemp without folders: an interrupted RemoveAll leaves those, and only its
// caller knows whether something still runs from one.
func CleanTempFiles(dir string) error {
	return cleanTemp(dir, func(e fs.DirEntry) bool { return !e.IsDir() })
}

func cleanTemp(dir string, which func(fs.DirEntry) bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if IsTemp(e.Name()) && !IsSpare(e.Name()) && which(e) {
			if err := RemoveTemp(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// IsTemp reports whether a name has the form that this package gives to unfinished files, or that
// SQLite gives to files beside them. Names of other programs do not have it: CleanTemp works in
// folders that are shared with them.
func IsTemp(name string) bool {
	for _, suffix := range []string{"-journal", "-wal", "-shm"} {
		name = strings.TrimSuffix(name, suffix)
	}
	end := len(name) - tempRandom
	return strings.HasPrefix(name, tempPrefix) && end > len(tempPrefix) && name[end-1] == '-' &&
		strings.Trim(name[end:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// tempRandom is the number of random letters at the end of a temporary name.
const tempRandom = 8

func tempName(path string) string {
	return filepath.Join(filepath.Dir(path), tempPrefix+filepath.Base(path)+"-"+rand.Text()[:tempRandom])
}

func syncBoth(a, b string) error {
	err := SyncDir(filepath.Dir(b))
	if err != nil || filepath.Dir(a) == filepath.Dir(b) {
		return err
	}
	return SyncDir(filepath.Dir(a))
}
