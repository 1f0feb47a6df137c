package procfs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// CouldNotLook says which process could not be looked at, and why. It has no more of the process than what anybody may
// read, which may be the PID alone.
func (f FS) CouldNotLook(pid int, why error) error {
	name := f.Name(pid)
	if name != "" {
		name = " (" + name + ")"
	}
	return fmt.Errorf("could not look at PID %d%s: %w", pid, name, why)
}

// ofKernel reports whether a process is a thread of the kernel, which executes no file and has none open. Who may not look
// at other processes may not look at these either.
func (f FS) ofKernel(pid int) bool {
	const kernelThread = 0x00200000 // PF_KTHREAD of linux/sched.h
	stat, err := os.ReadFile(f.of(pid, "stat"))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from the state on
	if len(fields) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(fields[6], 10, 32)
	return err == nil && flags&kernelThread != 0
}
