package procfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Group returns the processes of a control group and those below it. A group that
// cannot be read has gone away, and its processes have too.
func (f FS) Group(controlGroup string) []Process {
	var found []Process
	for _, pid := range f.groupPIDs(controlGroup) {
		if p := f.Process(pid); p != nil {
			found = append(found, *p)
		}
	}
	return found
}

// groupPIDs returns the PIDs of a control group and the groups below it, dead and hidden ones,
// too.
func (f FS) groupPIDs(controlGroup string) (pids []int) {
	root, ok := f.groupFolder(controlGroup)
	if !ok {
		return nil
	}
	filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		content, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for _, field := range strings.Fields(string(content)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// hierarchies are the folders in which systemd may have its control groups: the only hierarchy, or
// systemd's own beside the controllers' hierarchies of cgroup v1.
var hierarchies = []string{"", "unified", "systemd"}

// groupFolder finds a control group in the hierarchy that systemd uses.
func (f FS) groupFolder(controlGroup string) (string, bool) {
	if controlGroup == "" {
		return "", false
	}
	for _, hierarchy := range hierarchies {
		folder := filepath.Join(f.Cgroups, hierarchy, controlGroup)
		if _, err := os.Stat(filepath.Join(folder, "cgroup.procs")); err == nil {
			return folder, true
		}
	}
	return "", false
}

// Runs reports whether a system service has a process, in any slice. A process that cannot be
// looked at counts. The default slice of services is read first: most calls read no more than the
// service's own group.
func (f FS) Runs(service string) bool {
	if f.runsIn("system.slice", service) {
		return true
	}
	for _, hierarchy := range hierarchies {
		root, runs := filepath.Join(f.Cgroups, hierarchy), false
		filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch slice, _ := filepath.Rel(root, path); {
			case err != nil || !d.IsDir() || path == root:
			case !strings.HasSuffix(d.Name(), ".slice"):
				return fs.SkipDir // a service, or a container with a systemd and services of its own
			case f.runsIn(slice, service):
				runs = true
				return fs.SkipAll
			}
			return nil
		})
		if runs {
			return true
		}
	}
	return false
}

func (f FS) runsIn(slice, service string) bool {
	group := "/" + filepath.Join(slice, service)
	return len(f.Group(group)) > 0 || f.HiddenIn(group) != nil
}

// FrozenAt returns the uppermost frozen control group, from the given one up to the root; empty if no group is frozen.
func (f FS) FrozenAt(controlGroup string) (highest string) {
	folder, ok := f.groupFolder(controlGroup)
	if !ok {
		return ""
	}
	for group := filepath.Clean(controlGroup); group != filepath.Dir(group); group = filepath.Dir(group) {
		if freeze, _ := os.ReadFile(filepath.Join(folder, "cgroup.freeze")); strings.TrimSpace(string(freeze)) == "1" {
			highest = group
		}
		folder = filepath.Dir(folder)
	}
	return highest
}

// SelfIn reports whether this process is in the control group of a systemd unit or below it:
// systemd ends it when it stops the unit.
func (f FS) SelfIn(unit string) bool {
	groups, err := os.ReadFile(filepath.Join(f.Proc, "self/cgroup"))
	return err == nil && groupsOf(string(groups), unit)
}

// ServiceOf returns the system service that a process belongs to; empty if it belongs to none, as
// in a session of a person.
func (f FS) ServiceOf(pid int) string {
	groups, err := os.ReadFile(f.of(pid, "cgroup"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		// In version 1, only systemd's own hierarchy is complete.
		if len(parts) < 3 || parts[1] != "" && parts[1] != "name=systemd" || strings.Contains(parts[2], "/user.slice/") {
			continue
		}
		for _, name := range slices.Backward(strings.Split(parts[2], "/")) {
			if strings.HasSuffix(name, ".service") {
				return name
			}
			if strings.HasSuffix(name, ".scope") {
				break
			}
		}
	}
	return ""
}

// groupsOf reports whether control groups, as /proc/PID/cgroup lists them, belong to a unit or are
// below it. In a container a unit of the outer host may come before the units of the systemd
// inside.
func groupsOf(groups, unit string) bool {
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) < 3 {
			continue
		}
		for _, name := range slices.Backward(strings.Split(parts[2], "/")) {
			if name == unit {
				return true
			}
			if strings.HasSuffix(name, ".service") || strings.HasSuffix(name, ".scope") {
				break
			}
		}
	}
	return false
}
