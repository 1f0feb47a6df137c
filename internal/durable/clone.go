package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"teleport-update/internal/regular"
)

// CloneFile makes the file at to a copy of the regular file at from, with its
// permissions, owner and extended attributes (file capabilities, security
// labels), durably. An existing file or link at to is replaced atomically, a
// link at from is an error.
func CloneFile(from, to string) error {
	if err := cloneFile(from, to); err != nil {
		return fmt.Errorf("copy %s to %s: %w", from, to, err)
	}
	return nil
}

func cloneFile(from, to string) error {
	in, info, err := regular.Open(from, regular.NoLink)
	if err != nil {
		return err
	}
	defer in.Close()
	return replace(to, func(f *os.File) error {
		if _, err := io.Copy(f, in); err != nil {
			return err
		}
		return copyAttributes(in, f, info)
	})
}

// copyAttributes copies owner, mode, attributes in this order: a change of owner drops setuid bits
// and capabilities.
func copyAttributes(in, out *os.File, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		if err := out.Chown(int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	if err := out.Chmod(info.Mode()); err != nil {
		return err
	}
	names := make([]byte, 64<<10)
	n, err := unix.Flistxattr(int(in.Fd()), names)
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(string(names[:n]), "\x00") {
		if name == "" {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Fgetxattr(int(in.Fd()), name, value)
		if err != nil {
			return err
		}
		// The target's file system may not support an attribute, which then does not work there anyway.
		err = unix.Fsetxattr(int(out.Fd()), name, value[:n], 0)
		if err != nil && !errors.Is(err, unix.ENOTSUP) && !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	return nil
}

// LinkFiles makes a new folder to, with the mode and owner of the folder from,
// and gives each file of from a second name in it, durably. A folder in from is
// an error. Both must be on one file system.
func LinkFiles(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "link files", Path: from, Err: unix.ENOTDIR}
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		if err := os.Chown(to, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	if err := os.Chmod(to, info.Mode()); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Link(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	if err := SyncDir(to); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(to))
}

// Link gives the file at from a second name that must not exist yet, and syncs the new name's
// folder. The file must be on stable storage already.
func Link(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(to))
}
