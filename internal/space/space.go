// Package space reports how much room a file system has left, in the
// same form everywhere: counted in bytes, written in binary units.
//
// Room that a file system reserves for root is not counted, although root could use it
// up: it is there so that the host survives a full disk.
package space

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Free is the room that a file system has left.
type Free struct {
	Bytes int64
	// RootBytes counts the room that is reserved for root, too.
	RootBytes int64
	// Files is how many more files and folders fit. It counts only if CountsFiles is set: btrfs, for
	// one, has no such number.
	Files       int64
	CountsFiles bool
}

// At returns the room on the file system of path. A missing path will be on the file system of the
// nearest existing folder above it.
func At(path string) (Free, error) {
	var st unix.Statfs_t
	if err := nearest(path, func(at string) error { return unix.Statfs(at, &st) }); err != nil {
		return Free{}, fmt.Errorf("find out the free space of %s: %w", path, err)
	}
	return Free{Bytes: int64(st.Bavail) * st.Bsize, RootBytes: int64(st.Bfree) * st.Bsize, Files: int64(st.Ffree), CountsFiles: st.Files > 0},
		nil
}

// Error means that a file system has too little room. It matches ENOSPC.
type Error struct {
	Path   string // a path in the file system
	Need   int64  // bytes, or files; 0 if only a failed write is known
	Free   int64  // bytes, or files
	Inodes bool   // the numbers count files, not bytes
}

func (e *Error) Error() string {
	write := Format
	if e.Inodes {
		write = func(n int64) string { return fmt.Sprintf("%d files (inodes)", n) }
	}
	if e.Need == 0 {
		return fmt.Sprintf("no space left on the file system of %s (%s free)", e.Path, write(e.Free))
	}
	return fmt.Sprintf("not enough space on the file system of %s: %s needed, %s free", e.Path, write(e.Need), write(e.Free))
}

// Is makes an Error match ENOSPC.
func (e *Error) Is(target error) bool { return target == error(unix.ENOSPC) }

// Check returns an *Error if the file system of path has less room than so many bytes and files,
// and another error if its room is not known.
func Check(path string, bytes, files int64) error {
	free, err := At(path)
	switch {
	case err != nil:
		return err
	case free.Bytes < bytes:
		return &Error{Path: path, Need: bytes, Free: free.Bytes}
	case free.CountsFiles && free.Files < files:
		return &Error{Path: path, Need: files, Free: free.Files, Inodes: true}
	}
	return nil
}

// CheckForRoot is Check for a write of root's, which may use reserved room. Room that is not known is no error.
func CheckForRoot(path string, bytes, files int64) *Error {
	free, err := At(path)
	switch {
	case err != nil:
		return nil
	case free.RootBytes < bytes:
		return &Error{Path: path, Need: bytes, Free: free.RootBytes}
	case free.CountsFiles && free.Files < files:
		return &Error{Path: path, Need: files, Free: free.Files, Inodes: true}
	}
	return nil
}

// Explain turns "no space left" and "quota exceeded" of a write to the file system of path into an
// *Error. Every other error stays as it is.
func Explain(err error, path string) error {
	if _, done := errors.AsType[*Error](err); done || !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	e := &Error{Path: path}
	if free, statErr := At(path); statErr == nil {
		e.Free = free.Bytes
		if free.CountsFiles && free.Files == 0 {
			e.Inodes, e.Free = true, 0
		}
	}
	return e
}

// SameFileSystem reports whether two paths are on one file system, as far as At can see.
func SameFileSystem(a, b string) bool {
	x, err1 := device(a)
	y, err2 := device(b)
	return err1 == nil && err2 == nil && x == y
}

func device(path string) (uint64, error) {
	var st unix.Stat_t
	err := nearest(path, func(at string) error { return unix.Stat(at, &st) })
	return uint64(st.Dev), err
}

// nearest looks at a path, or at the nearest existing folder above it.
func nearest(path string, look func(at string) error) error {
	err := look(path)
	for err == unix.ENOENT && path != filepath.Dir(path) {
		path = filepath.Dir(path)
		err = look(path)
	}
	return err
}

// Format writes a number of bytes for a person, as in 4.0 MiB.
func Format(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

// NoExec reports whether the file system of a path is mounted so that no program on it can
// be executed.
func NoExec(path string) (bool, error) { return mounted(path, unix.ST_NOEXEC) }

// ReadOnly reports whether the file system of a path is mounted so that nothing on it can be changed.
func ReadOnly(path string) (bool, error) { return mounted(path, unix.ST_RDONLY) }

// mounted reports whether the mount of a path has a flag of statvfs(3).
func mounted(path string, flag int64) (bool, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return false, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	return st.Flags&flag != 0, nil
}
