package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// CouldNotLook returns an error that names a process that could not be looked at, and the reason. It uses only data
// that anybody may read, which may be the PID alone.
func (f FS) CouldNotLook(pid int, why error) error {
	name := f.Name(pid)
	if name != "" {
		name = " (" + name + ")"
	}
	return fmt.Errorf("could not look at PID %d%s: %w", pid, name, why)
}

// Unseen returns an error that names a process of one of these users which could not be looked at, so that its open files
// are not known; nil if all can be looked at. For root that takes the right of MayLook; even then, a security module may
// hide single processes, and so does a user namespace outside of a container.
func (f FS) Unseen(users ...int) error {
	if err := f.Hidden(1); err != nil { // it always exists: if it is not shown, others may not be either
		return f.CouldNotLook(1, err)
	}
	pids, err := f.pids()
	if err != nil {
		return err
	}
	slices.Sort(pids)
	for _, pid := range pids {
		_, err := os.Readlink(f.of(pid, "exe"))
		if !errors.Is(err, fs.ErrPermission) || f.ofKernel(pid) {
			continue
		}
		info, gone := os.Stat(f.of(pid, ""))
		if gone == nil && slices.Contains(users, int(info.Sys().(*syscall.Stat_t).Uid)) {
			return f.CouldNotLook(pid, err)
		}
	}
	return nil
}

// MayLook reports whether this thread may look at the processes of other users and at those with more rights, as root may
// on a host: it has CAP_SYS_PTRACE, from which hidepid= hides nothing. It is true if that cannot be found out.
func MayLook() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var rights [2]unix.CapUserData
	if err := unix.Capget(&header, &rights[0]); err != nil {
		return true
	}
	return rights[0].Effective&(1<<unix.CAP_SYS_PTRACE) != 0
}

// ofKernel reports whether a process is a thread of the kernel, which executes no file and has none open. A process that
// may not look at other processes may not look at these either.
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

// SameAs returns an error if a line of a process's status differs from this process's, or cannot be read.
func (f FS) SameAs(pid int, name string) error {
	line := func(path string) (string, error) {
		text, err := os.ReadFile(path)
		_, after, found := strings.Cut("\n"+string(text), "\n"+name+":")
		if err == nil && !found {
			err = fmt.Errorf("%s has no line %s", path, name)
		}
		value, _, _ := strings.Cut(after, "\n")
		return value, err
	}
	own, err1 := line(filepath.Join(f.Proc, "self", "status"))
	its, err2 := line(f.of(pid, "status"))
	if err := errors.Join(err1, err2); err != nil || own == its {
		return err
	}
	return fmt.Errorf("%s of process %d is%s, and of this one%s", name, pid, its, own)
}
