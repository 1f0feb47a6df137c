// Package immutable lets a test make a file or a folder that not even root can change, as `chattr +i` does.
package immutable

import (
	"os"

	"golang.org/x/sys/unix"
)

const flag = 0x10 // FS_IMMUTABLE_FL of linux/fs.h

// Set sets or clears the flag. Not every file system has it.
func Set(path string, on bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return err
	}
	if flags &^= flag; on {
		flags |= flag
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
}
