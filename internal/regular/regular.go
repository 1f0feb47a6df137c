// Package regular opens and reads regular files at paths that somebody else may
// have changed.
//
// Instead of the file there may be a pipe, at which an open waits for ever, a
// device, a link that leads to a file of somebody else's, or more bytes than fit
// into the memory. Each of these is an *UnsuitableError at once, and none is opened as far
// as a look beforehand can tell.
package regular

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"teleport-update/internal/trust"
)

// Care is a condition on a file beside being regular.
type Care uint8

const (
	// NoLink demands that the path itself is the file. Otherwise a link may lead to it.
	NoLink Care = 1 << iota
	// Sealed demands that nobody but the user that runs this can write the file: its content decides
	// what root does.
	Sealed
)

// UnsuitableError means that the file at a path must not be read: it is not a regular file, is too
// large, or may be written by others.
type UnsuitableError struct {
	Path string
	What string // what it is instead, and what to do if that is known
}

func (e *UnsuitableError) Error() string { return e.Path + " " + e.What }

// Open opens a regular file for reading. The error is an *UnsuitableError, or an error of package
// os, as for a missing file.
func Open(path string, care Care) (*os.File, fs.FileInfo, error) {
	look, flags := os.Stat, os.O_RDONLY|unix.O_NONBLOCK
	if care&NoLink != 0 {
		look, flags = os.Lstat, flags|unix.O_NOFOLLOW
	}
	info, err := look(path)
	if err != nil {
		return nil, nil, err
	}
	if err := care.check(path, info); err != nil {
		return nil, nil, err
	}
	// The file may have been exchanged meanwhile.
	f, err := os.OpenFile(path, flags, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, nil, &UnsuitableError{path, aLink}
	}
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = care.check(path, info)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// Read returns the content of a regular file; a file of more than limit bytes is an
// *UnsuitableError.
func Read(path string, limit int64, care Care) ([]byte, error) {
	f, info, err := Open(path, care)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Files of the kernel have a size of 0.
	data := bytes.NewBuffer(make([]byte, 0, min(info.Size(), limit)+bytes.MinRead))
	if _, err := data.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, err
	}
	if int64(data.Len()) > limit {
		return nil, &UnsuitableError{path, fmt.Sprintf("is larger than %d bytes", limit)}
	}
	return data.Bytes(), nil
}

const aLink = "is a symbolic link, not a file of ours; remove it"

func (c Care) check(path string, info fs.FileInfo) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return &UnsuitableError{path, aLink}
	case !info.Mode().IsRegular():
		return &UnsuitableError{path, "is not a regular file"}
	case c&Sealed == 0 || trust.Sealed(info):
		return nil
	case !trust.Ours(info) && info.Sys().(*syscall.Stat_t).Uid == 0:
		return &fs.PathError{Op: "read", Path: path, Err: fs.ErrPermission} // root's own
	case !trust.Ours(info):
		return &UnsuitableError{path, fmt.Sprintf("belongs to user %d, not to %s: somebody else could have written it; check it, then "+
			"chown it to %[2]s", info.Sys().(*syscall.Stat_t).Uid, us())}
	}
	return &UnsuitableError{path, fmt.Sprintf("may be written by others than %s (mode %v): check it, then chmod go-w",
		us(), info.Mode().Perm())}
}

func us() string {
	if id := os.Geteuid(); id != 0 {
		return fmt.Sprintf("user %d", id)
	}
	return "root"
}
