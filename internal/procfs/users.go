package procfs

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A User is a process that has files open.
type User struct {
	PID int
	// Writes: one of the files is open for writing. Locks: the process holds a lock of
	// fcntl(2) or flock(2) on one of them.
	Writes, Locks bool
}

// Users returns the processes, except this one, that have one of the files open, in their order,
// without taking a lock. It leaves out processes that this one may not look into: Unseen reports
// whether there are any.
func (f FS) Users(files []FileID) ([]User, error) {
	pids, err := f.pids()
	if err != nil {
		return nil, err
	}
	slices.Sort(pids)
	var users []User
	for _, pid := range pids {
		if pid == os.Getpid() {
			continue
		}
		if u, uses := f.user(pid, files); uses {
			users = append(users, u)
		}
	}
	return users, nil
}

func (f FS) user(pid int, files []FileID) (u User, uses bool) {
	u.PID = pid
	descriptors, err := os.ReadDir(f.of(pid, "fd"))
	if err != nil {
		return u, false
	}
	for _, d := range descriptors {
		id, err := Identify(filepath.Join(f.of(pid, "fd"), d.Name()), 0)
		if err != nil || !slices.Contains(files, id) {
			continue
		}
		info, err := os.ReadFile(filepath.Join(f.of(pid, "fdinfo"), d.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		writes, locks := descriptor(string(info))
		u.Writes, u.Locks, uses = u.Writes || writes, u.Locks || locks, true
	}
	return u, uses
}

// SeenBy returns a path by which this process finds the file that another process has at an absolute path in its own view of
// the file systems.
func (f FS) SeenBy(pid int, path string) string { return filepath.Join(f.of(pid, "root"), path) }

// Sees reports whether a path exists for a process, which may have mounts of its own.
func (f FS) Sees(pid int, path string) bool {
	_, err := os.Lstat(f.SeenBy(pid, path))
	return err == nil
}

// SeesSame reports whether a process has the same file at a path as this process. No process of a container does.
func (f FS) SeesSame(pid int, path string) bool {
	here, err1 := Identify(path, 0)
	there, err2 := Identify(f.SeenBy(pid, path), 0)
	return err1 == nil && err2 == nil && here == there
}

// OpenByName returns the path, as the kernel has it, of a file that one of the processes has open
// and whose name begins so, wherever it is and even if it was removed. SQLite's files beside a
// database are left out. Empty if there is no such file.
func (f FS) OpenByName(pids []int, prefix string) string {
	return f.open(pids, func(name string) bool { return strings.HasPrefix(name, prefix) && !isLog(name) })
}

// HasDatabase reports whether a process has a database of a name open, even if it was moved, or SQLite's files
// beside it: they stay when a database is renamed.
func (f FS) HasDatabase(pid int, name string) bool {
	return f.open([]int{pid}, func(open string) bool { return strings.HasPrefix(open, name) }) != ""
}

func (f FS) open(pids []int, fits func(name string) bool) string {
	for _, pid := range pids {
		descriptors, err := os.ReadDir(f.of(pid, "fd"))
		if err != nil {
			continue // it ended
		}
		for _, d := range descriptors {
			path, err := os.Readlink(filepath.Join(f.of(pid, "fd"), d.Name()))
			if err == nil && fits(strings.TrimSuffix(filepath.Base(path), deleted)) {
				return path
			}
		}
	}
	return ""
}

// OpenInstead returns the path, as the kernel has it, of a file that a process has open and that has the name of the file at
// path, if the process does not have the file at path open: one of the two was moved. Empty if there is no such file, or
// nothing at path.
func (f FS) OpenInstead(pid int, path string) string {
	there, err := Identify(path, 0)
	if err != nil {
		return ""
	}
	if _, uses := f.user(pid, []FileID{there}); uses {
		return ""
	}
	return f.OpenByName([]int{pid}, filepath.Base(path))
}

var databaseSuffixes = []string{"-wal", "-shm", "-journal"}

func isLog(name string) bool {
	return slices.ContainsFunc(databaseSuffixes, func(s string) bool { return strings.HasSuffix(name, s) })
}

// descriptor reads how a file is open from proc_pid_fdinfo(5). Unreadable flags count as open for
// writing.
func descriptor(info string) (writes, locks bool) {
	writes = true
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "flags":
			flags, err := strconv.ParseUint(strings.TrimSpace(value), 8, 64)
			writes = err != nil || flags&unix.O_PATH == 0 && flags&unix.O_ACCMODE != unix.O_RDONLY
		case "lock":
			locks = true
		}
	}
	return writes, locks
}
