package backup

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"teleport-update/internal/procfs"
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
		who = append(who, strings.TrimSpace(fmt.Sprintf("%d %s", pid, procfs.Host().Name(pid))))
	}
	return fmt.Sprintf("%s is open in another process (%s); it must be stopped", e.Path, strings.Join(who, ", "))
}

// checkUnused returns an *InUseError when a process other than this one has the
// database at path or one of its sidecars open. A lock would not tell: with a
// rollback journal, a connection that is idle holds none.
func checkUnused(path string) error {
	var files []procfs.FileID
	for _, suffix := range append([]string{""}, sidecars[:]...) {
		id, err := procfs.Identify(path+suffix, unix.AT_SYMLINK_NOFOLLOW)
		if isNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		files = append(files, id)
	}
	if len(files) == 0 {
		return nil
	}
	pids, err := procfs.Host().Users(files)
	if err != nil {
		return fmt.Errorf("look for processes that use %s: %w", path, err)
	}
	if len(pids) > 0 {
		return &InUseError{Path: path, PIDs: pids}
	}
	return nil
}
