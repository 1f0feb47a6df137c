package backup

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// An InUseError says that a database that must be at rest is open elsewhere.
type InUseError struct {
	Path string
	// PIDs are the processes that have the database or one of its sidecars
	// open; none when somebody held a lock for a moment and was gone.
	PIDs []int
}

func (e *InUseError) Error() string {
	if len(e.PIDs) == 0 {
		return fmt.Sprintf("%s is locked by another process; the agent must be stopped", e.Path)
	}
	var who []string
	for _, pid := range e.PIDs {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		who = append(who, strings.TrimSpace(fmt.Sprintf("%d %s", pid, name)))
	}
	return fmt.Sprintf("%s is open in another process (%s); it must be stopped", e.Path, strings.Join(who, ", "))
}

// checkUnused returns an *InUseError when a process other than this one has the
// database at path or one of its sidecars open. A lock would not tell: with a
// rollback journal, a connection that is idle holds none.
func checkUnused(path string) error {
	ours, err := identities(path)
	if err != nil {
		return err
	}
	if len(ours) == 0 {
		return nil
	}
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("look for processes that use %s: %w", path, err)
	}
	var pids []int
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if uses(pid, ours) {
			pids = append(pids, pid)
		}
	}
	if len(pids) > 0 {
		slices.Sort(pids)
		return &InUseError{Path: path, PIDs: pids}
	}
	return nil
}

// uses reports whether the process has one of the files open. Processes that
// end meanwhile have none; of those that this one may not look into nothing is
// known, which does not happen to root on a host.
func uses(pid int, files []identity) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	descriptors, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, d := range descriptors {
		if id, err := identify(filepath.Join(dir, d.Name()), 0); err == nil && slices.Contains(files, id) {
			return true
		}
	}
	return false
}

// identity is what makes two names the same file, in whatever mount namespace
// they are seen.
type identity struct {
	major, minor uint32
	inode        uint64
}

// identify never waits for a file server that does not answer: some process may
// have a file on it open.
func identify(path string, flags int) (identity, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, flags|unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &st)
	if err != nil {
		return identity{}, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	return identity{st.Dev_major, st.Dev_minor, st.Ino}, nil
}

func identities(path string) ([]identity, error) {
	var ids []identity
	for _, suffix := range append([]string{""}, sidecars[:]...) {
		id, err := identify(path+suffix, unix.AT_SYMLINK_NOFOLLOW)
		if isNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}
