package backup

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"teleport-update/internal/procfs"
)

// An InUseError says that somebody is connected to a database that must be at rest,
// or may write it.
type InUseError struct {
	Path string
	// PIDs are the processes; empty if somebody held a lock for a moment and was gone.
	PIDs []int
}

func (e *InUseError) Error() string {
	if len(e.PIDs) == 0 {
		return fmt.Sprintf("%s is locked by another process; the agent must be stopped", e.Path)
	}
	return fmt.Sprintf("%s is open in another process (%s); it must be stopped", e.Path, e.Who())
}

// Who names the processes, each by its PID and its program.
func (e *InUseError) Who() string {
	var who []string
	for _, pid := range e.PIDs {
		who = append(who, strings.TrimSpace(fmt.Sprintf("%d %s", pid, procfs.Host().Name(pid))))
	}
	return strings.Join(who, ", ")
}

// checkUnused asks the kernel which processes have the files open. A lock would not show that: with a rollback journal, an idle connection
// holds no lock. A process that only reads the files, and holds no lock, is no connection that a restore could mislead.
func checkUnused(path string, except []int) error {
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
	users, err := procfs.Host().Users(files)
	if err != nil {
		return fmt.Errorf("look for processes that use %s: %w", path, err)
	}
	var pids []int
	for _, u := range users {
		if (u.Writes || u.Locks) && !slices.Contains(except, u.PID) {
			pids = append(pids, u.PID)
		}
	}
	if len(pids) > 0 {
		return &InUseError{Path: path, PIDs: pids}
	}
	return nil
}
