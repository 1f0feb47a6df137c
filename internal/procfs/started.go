package procfs

import (
	"os"
	"strings"
	"syscall"
)

// Started holds the arguments and the environment with which a process was started, and its user.
type Started struct {
	Command     []string // its words, the program first
	Environment []string // NAME=VALUE
	UID         int
}

// Started returns them for a process; ok is false if it is gone, or may not be looked at.
func (f FS) Started(pid int) (s Started, ok bool) {
	command, err1 := os.ReadFile(f.of(pid, "cmdline"))
	environment, err2 := os.ReadFile(f.of(pid, "environ"))
	info, err3 := os.Stat(f.of(pid, ""))
	if err1 != nil || err2 != nil || err3 != nil {
		return s, false
	}
	return Started{Command: fieldsOf(command), Environment: fieldsOf(environment), UID: int(info.Sys().(*syscall.Stat_t).Uid)}, true
}

// fieldsOf splits data into strings that end with a NUL each.
func fieldsOf(data []byte) []string {
	if len(data) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
}
