package procfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// An Executable is the file that a process executes.
type Executable struct {
	PID  int
	Path string // as the kernel names it, without " (deleted)"
	File FileID // zero if the process ended meanwhile
	// Hidden is the reason why it cannot be looked at, as in some sandboxes, or on another user's file
	// system. Then only PID is set.
	Hidden error
}

// Executables returns the executables of all processes. After an error, one of them is not known:
// a caller that must not overlook any has to stop then, and has to check the hidden ones.
func (f FS) Executables() ([]Executable, error) {
	pids, err := f.pids()
	if err != nil {
		return nil, err
	}
	var all []Executable
	for _, pid := range pids {
		link := f.of(pid, "exe")
		path, err := os.Readlink(link)
		if gone(err) || errors.Is(err, fs.ErrPermission) && f.ofKernel(pid) {
			continue
		}
		if errors.Is(err, fs.ErrPermission) {
			all = append(all, Executable{PID: pid, Hidden: err})
			continue
		}
		if err != nil {
			return nil, err
		}
		id, err := Identify(link, 0)
		if err != nil && !gone(err) { // a user's own FUSE mount keeps root out, and a broken mount everybody
			all = append(all, Executable{PID: pid, Hidden: err})
			continue
		}
		all = append(all, Executable{PID: pid, Path: strings.TrimSuffix(path, deleted), File: id})
	}
	return all, nil
}

// Calls reports whether a process has the name of a program, as far as the kernel keeps it. The
// name can be read even if the executable may not be looked at.
func (f FS) Calls(pid int, program string) bool {
	const kept = 15 // TASK_COMM_LEN, less the zero byte
	return f.Name(pid) == program[:min(len(program), kept)]
}

// Locked reports whether some process holds the file at path locked by flock(2), without taking
// the lock: a lock, even for an instant, may turn another process away.
func (f FS) Locked(path string) bool { return len(f.holders(path)) > 0 }

// LockedByUsers is Locked without a process that is known to be root's: every user who may read a
// file can lock it. The user of a process that has ended, and left the lock to another, is
// not known.
func (f FS) LockedByUsers(path string) bool {
	holders := f.holders(path)
	return len(holders) > 0 && !slices.ContainsFunc(holders, f.ofRoot)
}

// ofRoot reads the user who started a process, not the owner of its folder in /proc: root owns
// that also if the process may not be traced.
func (f FS) ofRoot(pid string) bool {
	status, _ := os.ReadFile(filepath.Join(f.Proc, pid, "status"))
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Uid:" {
			return fields[1] == "0"
		}
	}
	return false
}

// holders returns the processes that locked a file.
func (f FS) holders(path string) (pids []string) {
	id, err := Identify(path, 0)
	if err != nil {
		return nil
	}
	locks, err := os.ReadFile(filepath.Join(f.Proc, "locks"))
	if err != nil {
		return nil
	}
	device, inode := fmt.Sprintf("%02x:%02x", id.Major, id.Minor), fmt.Sprint(id.Inode)
	for line := range strings.Lines(string(locks)) {
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[1] != "FLOCK" {
			continue
		}
		pid, file := fields[4], fields[5]
		at := strings.LastIndexByte(file, ':')
		if at < 0 || file[at+1:] != inode {
			continue
		}
		if file[:at] == device || f.locks(pid, id) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// locks reports whether a process holds a lock on a file that it has open. The table of locks names the device of the
// superblock. On btrfs and overlayfs, stat(2) returns another device for each subvolume and layer, and inode numbers are
// unique only within one.
func (f FS) locks(pid string, file FileID) bool {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return false
	}
	u, _ := f.user(n, []FileID{file})
	return u.Locks
}
