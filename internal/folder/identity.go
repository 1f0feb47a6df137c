package folder

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"teleport-update/internal/procfs"
)

// ID tells a folder from others, as it is written down. The zero ID is none.
type ID struct {
	// Boot is that of the device number, which another boot may give to another disk.
	Boot   string `json:"boot"`
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	// FileSystem is the kernel's number of the file system (f_fsid of statfs(2)), in
	// hexadecimal. Many file systems keep it for good (ext4, btrfs), some make it from
	// the device number (XFS), and some have none.
	FileSystem string `json:"file_system,omitempty"`
	// Mount is where the file system is mounted; empty where the kernel does not say.
	Mount string `json:"mount,omitempty"`
}

// Same reports whether both are certain to be one folder: device and inode say so
// within one boot, file system and inode whenever they agree. Another boot may give
// one folder other numbers, so that false says less then.
func (id ID) Same(other ID) bool {
	return id.Inode == other.Inode &&
		(id.Boot == other.Boot && id.Device == other.Device || id.FileSystem != "" && id.FileSystem == other.FileSystem)
}

// Differs reports whether both are certain to be two folders: of one file system, with
// other inodes.
func (id ID) Differs(other ID) bool {
	return id.Inode != other.Inode && id.FileSystem != "" && id.FileSystem == other.FileSystem
}

// ID returns the identity of the folder in this boot.
func (f *Folder) ID(boot string) (ID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.dir.Fd()), &st); err != nil {
		return ID{}, &os.PathError{Op: "stat", Path: f.path, Err: err}
	}
	id := ID{Boot: boot, Device: uint64(st.Dev), Inode: st.Ino}
	var system unix.Statfs_t
	err := unix.Fstatfs(int(f.dir.Fd()), &system)
	if err != nil {
		return ID{}, &os.PathError{Op: "statfs", Path: f.path, Err: err}
	}
	if v := system.Fsid.Val; v != [2]int32{} {
		id.FileSystem = fmt.Sprintf("%08x%08x", uint32(v[0]), uint32(v[1]))
	}
	id.Mount, err = procfs.Host().MountOf(f.dir)
	return id, err
}
