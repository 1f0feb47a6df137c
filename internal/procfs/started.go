package procfs

import (
	"os"
	"strings"
	"syscall"
)

// Started is with what a process was started.
type Started struct {
	Command     []string // its words, the program first
	Environment []string // NAME=VALUE
	UID         int
}

// Started returns that of a process; ok is false where it is gone, or may not be looked
// at.
func (f FS) Started(pid int) (s Started, ok bool) {
	command, err := os.ReadFile(f.of(pid, "cmdline"))
	if err != nil {
		return s, false
	}
	environment, err := os.ReadFile(f.of(pid, "environ"))
	if err != nil {
		return s, false
	}
	info, err := os.Stat(f.of(pid, ""))
	if err != nil {
		return s, false
	}
	return Started{Command: fieldsOf(command), Environment: fieldsOf(environment), UID: int(info.Sys().(*syscall.Stat_t).Uid)}, true
}

// fieldsOf are strings of which each ends with a NUL.
func fieldsOf(data []byte) []string {
	if len(data) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
}
