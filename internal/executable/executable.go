// Package executable tells why a program cannot be executed.
package executable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"teleport-update/internal/space"
)

// Why says why a program cannot be executed; err is why that cannot be told.
func Why(path string) (why, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is missing", path), nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", path), nil
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s may not be executed (mode %v): `chmod 755 %s`", path, info.Mode().Perm(), path), nil
	}
	if noexec, err := space.NoExec(path); err != nil {
		return nil, err
	} else if noexec {
		return fmt.Errorf("%s cannot be executed: its file system is mounted noexec (see `findmnt -T %s`); mount it with exec", path, path), nil
	}
	if err := unix.Access(path, unix.X_OK); errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%s may not be executed: %w", path, err), nil
	} else if err != nil {
		return nil, &fs.PathError{Op: "access", Path: path, Err: err}
	}
	return nil, nil
}
