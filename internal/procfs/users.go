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

// Users returns the processes, this one apart, that have one of the files open,
// in their order, without taking a lock. Of those that this one may not look into
// nothing is known: Unseen tells whether there are any.
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

// SeenBy is a path by which this process finds what another one has at an absolute path in its own view of the file systems.
func (f FS) SeenBy(pid int, path string) string { return filepath.Join(f.of(pid, "root"), path) }

// Sees reports whether there is something at a path for a process, which may have mounts of its
// own.
func (f FS) Sees(pid int, path string) bool {
	_, err := os.Lstat(f.SeenBy(pid, path))
	return err == nil
}

// SeesSame reports whether a process sees at a path what is there for this one, as no process of a container does.
func (f FS) SeesSame(pid int, path string) bool {
	here, err1 := Identify(path, 0)
	there, err2 := Identify(f.SeenBy(pid, path), 0)
	return err1 == nil && err2 == nil && here == there
}

// OpenByName returns the path, as the kernel has it, of a file that one of the processes has open
// and whose name begins so, wherever it is and whether it is still there; what SQLite keeps beside
// a database is left out. Empty: there is none.
func (f FS) OpenByName(pids []int, prefix string) string {
	return f.open(pids, func(name string) bool { return strings.HasPrefix(name, prefix) && !isLog(name) })
}

// HasDatabase reports whether a process has a database of a name open, wherever that is by now, or what SQLite keeps
// beside it: who renames a database leaves that.
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
// path, which the process has not open: one of the two was moved. Empty: there is none, or nothing at path.
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

// descriptor reads how a file is open from proc_pid_fdinfo(5). What cannot be read is
// taken for open for writing.
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
