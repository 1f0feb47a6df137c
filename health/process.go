package health

import "teleport-update/internal/procfs"

// identity distinguishes processes although PIDs are used again.
type identity struct {
	pid   int
	start uint64 // clock ticks since boot
}

// process is a live process, seen at one moment.
type process struct {
	identity
	parent int
	exe    string // the file that it executes, as the kernel names it
	inside bool   // exe is inside the version's folder
	halted bool   // SIGSTOP keeps it from running
}

// seen returns a process for a watch of the version in dir.
func seen(p procfs.Process, dir string) process {
	return process{identity{p.PID, p.Start}, p.Parent, p.Exe, p.Inside(dir), p.Halted}
}

// groupOf returns the processes of a control group and those below it.
func groupOf(proc procfs.FS, controlGroup, dir string) []process {
	var found []process
	for _, p := range proc.Group(controlGroup) {
		found = append(found, seen(p, dir))
	}
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
