package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// spareEnd takes the place of the random letters of a temporary name.
const spareEnd = "-SPARES22"

// Spare returns the name of the spare of a file or link, which is in the same folder. A spare is made before a change that may have to be
// undone. It holds what goes back, or the room for what is written later. A spare and its file change their names: that needs no room
// and no inode. CleanTemp leaves spares alone: DropSpares removes them.
func Spare(path string) string {
	return filepath.Join(filepath.Dir(path), tempPrefix+filepath.Base(path)+spareEnd)
}

// IsSpare reports whether a file of this name is a spare.
func IsSpare(name string) bool {
	return strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, spareEnd)
}

// CreateSpare opens a new, empty spare of a path, for readers of this user only. It is a file that keeps room.
func CreateSpare(path string) (*os.File, error) {
	return os.OpenFile(Spare(path), os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
}

// DropSpares removes the spares in a folder. A missing folder has none.
func DropSpares(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if IsSpare(e.Name()) {
			err = errors.Join(err, RemoveTemp(filepath.Join(dir, e.Name())))
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// SwapSpare puts the spare of a path in its place, durably, and makes what was there the spare.
func SwapSpare(path string) error {
	err := Exchange(Spare(path), path)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		// Nothing is at the path, or the file system does not exchange names.
		return Replace(Spare(path), path)
	}
	return err
}

// WriteSpared is WriteFile, with mode 0600, for a file that is written again and again, and must not fail for want of room once it is
// there. The first call makes a spare, and both have room for so many bytes more, if the file system can keep it. A later call writes
// into the spare, which then takes the file's place. A text that is shorter than the one in the spare gets spaces before its last byte.
func WriteSpared(path string, data []byte, room int64) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := writeRoomy(Spare(path), data, room); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		if err := writeRoomy(path, data, room); err != nil {
			return fmt.Errorf("write %s: %w", path, errors.Join(err, UnlinkNoSync(Spare(path))))
		}
		return nil
	}
	err := overwrite(Spare(path), data)
	if err == nil {
		err = SwapSpare(path)
	}
	if err != nil { // somebody removed the spare, or the data are longer than expected
		return WriteFile(path, data, 0o600)
	}
	return nil
}

func writeRoomy(path string, data []byte, room int64) error {
	return replace(path, func(f *os.File) error {
		if _, err := f.Write(data); err != nil {
			return err
		}
		if err := Allocate(f, unix.FALLOC_FL_KEEP_SIZE, int64(len(data)), room); err != nil {
			return err
		}
		return f.Chmod(0o600)
	})
}

// Allocate reserves room for a file. A file system that cannot reserve any is no error. fallocate(2) may be interrupted by a signal, and
// is then called again.
func Allocate(f *os.File, mode uint32, from, bytes int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), mode, from, bytes)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP):
			return nil
		default:
			return err
		}
	}
}

// overwrite writes data into a file that never becomes shorter, durably.
func overwrite(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		_, err = f.WriteAt(fill(data, int(info.Size())), 0)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// fill returns data, which is at least one byte long, with spaces before its last byte, so that it is at least so long.
func fill(data []byte, length int) []byte {
	end := len(data) - 1
	spaces := bytes.Repeat([]byte(" "), max(0, length-len(data)))
	return append(append(bytes.Clone(data[:end]), spaces...), data[end])
}
