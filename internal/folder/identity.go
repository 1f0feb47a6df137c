package folder

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"teleport-update/internal/procfs"
)

// ID distinguishes folders, in a form that can be stored. The zero ID stands for no folder.
type ID struct {
	// Boot is the boot of the device number, which another boot may give to another disk.
	Boot   string `json:"boot"`
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	// FileSystem identifies the file system for good, in hexadecimal: the kernel's number of it
	// (f_fsid of statfs(2)), and the UUID of XFS, which makes that number from the device. Empty if
	// the file system has none.
	FileSystem string `json:"file_system,omitempty"`
	// Mount is the path of the file system's mount; empty if the kernel does not say.
	Mount string `json:"mount,omitempty"`
}

// Same reports whether both are certain to be one folder: within one boot by device and inode,
// otherwise by file system and inode. Another boot may give one folder other numbers, so that
// false says less then.
func (id ID) Same(other ID) bool {
	return id.Inode == other.Inode &&
		(id.Boot == other.Boot && id.Device == other.Device || id.FileSystem != "" && id.FileSystem == other.FileSystem)
}

// Differs reports whether both are certain to be two folders: on one file system, with different
// inodes.
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
	if uuid, ok := xfsUUID(int(f.dir.Fd()), int64(system.Type)); ok {
		id.FileSystem = uuid
	} else if v := system.Fsid.Val; v != [2]int32{} {
		id.FileSystem = fmt.Sprintf("%08x%08x", uint32(v[0]), uint32(v[1]))
	}
	id.Mount, err = procfs.Host().MountOf(f.dir)
	return id, err
}

// xfsUUID asks for the UUID of an XFS, as its programs do (ioctl_xfs_fsgeometry(2)).
func xfsUUID(fd int, kind int64) (string, bool) {
	const (
		magic    = 0x58465342
		geometry = 0x80705864 // XFS_IOC_FSGEOMETRY_V1, see xfs_fs.h
	)
	var geom [112]byte // struct xfs_fsop_geom_v1, with the UUID at 64
	if kind != magic {
		return "", false
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), geometry, uintptr(unsafe.Pointer(&geom)))
	return fmt.Sprintf("%x", geom[64:80]), errno == 0
}
