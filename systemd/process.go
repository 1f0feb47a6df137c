package systemd

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// identity tells processes apart although PIDs are used again.
type identity struct {
	pid   int
	start uint64 // clock ticks since boot
}

// process is a live process, seen at one moment.
type process struct {
	identity
	parent int
	exe    string // what it executes, as the kernel names it
	inside bool   // exe is inside the version's folder
}

// procfs reads processes: from /proc, and from the control groups' mount for
// which process belongs to a unit.
type procfs struct{ root string }

// process returns nil for a process that is gone, or dead and not yet buried.
func (p procfs) process(pid int, dir string) *process {
	stat, err := os.ReadFile(filepath.Join(p.root, "proc", strconv.Itoa(pid), "stat"))
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
	found := process{identity: identity{pid: pid}}
	found.parent, _ = strconv.Atoi(fields[1])
	found.start, _ = strconv.ParseUint(fields[19], 10, 64)
	// The dead execute nothing.
	found.exe, err = os.Readlink(filepath.Join(p.root, "proc", strconv.Itoa(pid), "exe"))
	if err != nil {
		return nil
	}
	found.inside = inside(found.exe, dir)
	return &found
}

// inside reports whether the executable is in the folder. One that was deleted
// there is not: what it runs is no longer what the folder holds. Without a folder
// any executable will do.
func inside(exe, dir string) bool {
	return dir == "" || strings.HasPrefix(exe, dir+"/") && !strings.HasSuffix(exe, " (deleted)")
}

// group returns the processes of a control group and those below it. A group that
// cannot be read has gone away, and its processes have too.
func (p procfs) group(controlGroup, dir string) []process {
	root, ok := p.groupFolder(controlGroup)
	if !ok {
		return nil
	}
	var found []process
	filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		pids, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			return nil
		}
		for _, field := range strings.Fields(string(pids)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				continue
			}
			if q := p.process(pid, dir); q != nil {
				found = append(found, *q)
			}
		}
		return nil
	})
	return found
}

// startedBy follows the parents of p up to an ancestor.
func startedBy(group []process, p process, ancestor identity) bool {
	for range len(group) {
		parent := member(group, p.parent)
		if parent == nil {
			return false
		}
		if parent.identity == ancestor {
			return true
		}
		p = *parent
	}
	return false
}

func member(group []process, pid int) *process {
	for i := range group {
		if group[i].pid == pid {
			return &group[i]
		}
	}
	return nil
}

// groupFolder finds a control group in the hierarchy that systemd uses: the only
// one there is, or its own beside the controllers' of cgroup v1.
func (p procfs) groupFolder(controlGroup string) (string, bool) {
	if controlGroup == "" {
		return "", false
	}
	for _, hierarchy := range []string{"", "unified", "systemd"} {
		folder := filepath.Join(p.root, "sys/fs/cgroup", hierarchy, controlGroup)
		if _, err := os.Stat(filepath.Join(folder, "cgroup.procs")); err == nil {
			return folder, true
		}
	}
	return "", false
}

// pidFile returns the number in a PID file, 0 if there is none.
func (p procfs) pidFile(path string) int {
	if path == "" {
		return 0
	}
	data, err := os.ReadFile(filepath.Join(p.root, path))
	if err != nil || len(data) > 64 {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 0 {
		return 0
	}
	return pid
}
