// Package procfs reads the kernel's data about processes: their executables,
// their units, their open files. It is the only reader of /proc
// in the updater, so that no two parts of it can disagree about a process.
//
// A process may end between two looks at it. Every result was true of
// the process at some moment of the call.
package procfs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"teleport-update/internal/console"

	"golang.org/x/sys/unix"
)

// FS holds the mounts in which the kernel describes processes.
type FS struct {
	Proc    string // the mount of proc(5)
	Cgroups string // the mount of cgroups(7)
}

// Host returns the mounts of the host.
func Host() FS { return FS{Proc: "/proc", Cgroups: "/sys/fs/cgroup"} }

// Self is the file that this process executes, even if the file was renamed or removed.
const Self = "/proc/self/exe"

// An ID distinguishes processes although PIDs are used again.
type ID struct {
	PID   int
	Start uint64 // clock ticks since boot
}

// Process is a live process, seen at one moment.
type Process struct {
	ID
	Parent int
	Exe    string // the file that it executes, as the kernel names it
	Halted bool   // a signal stopped it, and it was not continued (SIGSTOP)
}

// deleted is the end of the kernel's name of a file that was removed.
const deleted = " (deleted)"

// Inside reports whether the executable is in a folder, a path without links. A deleted executable
// is not: the process runs another file than the folder has now. Without a folder any executable
// will do.
func (p Process) Inside(dir string) bool {
	return dir == "" || p.CameFrom(dir) && !strings.HasSuffix(p.Exe, deleted)
}

// CameFrom is Inside for a file that may have been deleted since: the process acted as a program
// of the folder.
func (p Process) CameFrom(dir string) bool { return strings.HasPrefix(p.Exe, dir+"/") }

// executor is the program, beside its own, by which systemd 255 and later sets up a process.
const executor = "systemd-executor"

// Forked reports whether PID 1 forked a process for a unit and the process does not execute the unit's program as yet.
func (f FS) Forked(p Process) bool {
	first := f.Process(1)
	if first == nil || p.Parent != 1 {
		return false
	}
	exe, manager := strings.TrimSuffix(p.Exe, deleted), strings.TrimSuffix(first.Exe, deleted)
	return exe == manager || exe == filepath.Join(filepath.Dir(manager), executor)
}

// Process returns nil for a process that is gone, or dead and not yet buried.
func (f FS) Process(pid int) *Process {
	stat, err := os.ReadFile(f.of(pid, "stat"))
	if err != nil {
		return nil
	}
	// The name is in parentheses and may hold anything, so count from its end.
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return nil
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 20 {
		return nil
	}
	p := Process{ID: ID{PID: pid}, Halted: fields[0] == "T"}
	p.Parent, _ = strconv.Atoi(fields[1])
	p.Start, _ = strconv.ParseUint(fields[19], 10, 64)
	// A dead process executes nothing.
	if p.Exe, err = os.Readlink(f.of(pid, "exe")); err != nil {
		return nil
	}
	return &p
}

// Hidden returns the reason why a process's executable cannot be read, although the process
// exists: this program lacks a right that root usually has, as in some sandboxes. It is nil for a
// process that can be looked at, and for one that is gone. With hidepid=2, or
// ProtectProc=invisible, even its folder is not shown: only a signal shows that the process
// exists.
func (f FS) Hidden(pid int) error {
	_, err := os.Readlink(f.of(pid, "exe"))
	if errors.Is(err, fs.ErrPermission) {
		return err
	}
	if _, unseen := os.Lstat(f.of(pid, "stat")); pid <= 0 || !errors.Is(unseen, fs.ErrNotExist) {
		return nil
	}
	if err := unix.Kill(pid, 0); err == nil || errors.Is(err, unix.EPERM) {
		return &fs.PathError{Op: "look at", Path: f.of(pid, "exe"), Err: errors.New("the process is there and is not shown " +
			"(hidepid=, ProtectProc=)")}
	}
	return nil
}

// HiddenIn is Hidden for the first process of a control group that may not be looked at.
func (f FS) HiddenIn(controlGroup string) error {
	for _, pid := range f.groupPIDs(controlGroup) {
		if err := f.Hidden(pid); err != nil {
			return err
		}
	}
	return nil
}

// Name returns a process's own name, for a person. The process may choose any words.
func (f FS) Name(pid int) string {
	name, _ := os.ReadFile(f.of(pid, "comm"))
	return strings.TrimSpace(console.Excerpt(strings.TrimSpace(string(name)), maxName))
}

// maxName is a little more than the number of characters that the kernel keeps.
const maxName = 32

func (f FS) of(pid int, name string) string { return filepath.Join(f.Proc, strconv.Itoa(pid), name) }

// pids returns the PIDs of all processes.
func (f FS) pids() ([]int, error) {
	entries, err := os.ReadDir(f.Proc)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// PIDFile returns the number in a PID file, or 0.
func PIDFile(path string) int {
	data, err := os.ReadFile(path)
	if err != nil || len(data) > 64 {
		return 0
	}
	pid, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 32)
	if err != nil || pid <= 0 {
		return 0
	}
	return int(pid)
}

// BootID identifies this boot of the host.
func BootID() string {
	data, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data))
}

// A FileID identifies a file, by any of its names and in any mount namespace.
type FileID struct {
	Major, Minor uint32
	Inode        uint64
}

// Identify never waits for a file server that does not answer. flags are flags of statx(2).
func Identify(path string, flags int) (FileID, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, flags|unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &st)
	if err != nil {
		return FileID{}, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	return FileID{st.Dev_major, st.Dev_minor, st.Ino}, nil
}

// gone reports whether an error means that a process ended meanwhile, or is a thread of the
// kernel.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}
