package host

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup is one control group in each hierarchy that systemd keeps its units in.
// Every host needs its own: nspawn puts what it boots in a group "payload" below
// the one it was started in, so two hosts started from one group would share
// theirs, unit by unit.
type cgroup struct {
	unified string // folder in the cgroup2 hierarchy; empty if there is none
	legacy  string // folder in the name=systemd hierarchy; empty if there is none
}

// makeCgroup creates a group of that name below the caller's own.
func makeCgroup(name string) (cgroup, error) {
	var c cgroup
	mounts, err := cgroupMounts()
	if err != nil {
		return c, err
	}
	own, err := ownCgroups()
	if err != nil {
		return c, err
	}
	for controller, dir := range map[string]*string{"": &c.unified, "name=systemd": &c.legacy} {
		mount, ok := mounts[controller]
		if !ok {
			continue
		}
		inside, err := filepath.Rel(mount.root, own[controller])
		if err != nil || strings.HasPrefix(inside, "..") {
			return c, fmt.Errorf("own cgroup %s is outside of what is mounted at %s", own[controller], mount.point)
		}
		*dir = filepath.Join(mount.point, inside, name)
		if err := os.Mkdir(*dir, 0o755); err != nil {
			return c, err
		}
	}
	if len(c.dirs()) == 0 {
		return c, errors.New("no cgroup hierarchy is mounted that systemd could use")
	}
	return c, nil
}

type cgroupMount struct{ root, point string }

// cgroupMounts reads where the two hierarchies are, by the name that
// /proc/self/cgroup gives them.
func cgroupMounts() (map[string]cgroupMount, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	mounts := map[string]cgroupMount{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 5 || len(right) < 3 {
			continue
		}
		mount := cgroupMount{left[3], left[4]}
		if right[0] == "cgroup2" {
			mounts[""] = mount
		} else if right[0] == "cgroup" && slices.Contains(strings.Split(right[2], ","), "name=systemd") {
			mounts["name=systemd"] = mount
		}
	}
	return mounts, lines.Err()
}

func ownCgroups() (map[string]string, error) {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	own := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if parts := strings.SplitN(strings.TrimSpace(line), ":", 3); len(parts) == 3 {
			own[parts[1]] = parts[2]
		}
	}
	return own, nil
}

func (c cgroup) dirs() []string {
	return slices.DeleteFunc([]string{c.unified, c.legacy}, func(d string) bool { return d == "" })
}

// join lists the files that a process must write its PID to in order to be in
// the group below this one in each hierarchy; "" is the group itself.
func (c cgroup) join(below string) []string {
	var files []string
	for _, dir := range c.dirs() {
		files = append(files, path.Join(dir, below, "cgroup.procs"))
	}
	return files
}

// payload is the folder of the group that the host's systemd keeps its units
// in, as nspawn makes it.
func (c cgroup) payload() string {
	if c.unified != "" {
		return filepath.Join(c.unified, "payload")
	}
	return filepath.Join(c.legacy, "payload")
}

// destroy kills every process in the group and below, and removes the groups.
func (c cgroup) destroy() error {
	deadline := time.Now().Add(Patience)
	for _, dir := range c.dirs() {
		for {
			if err := killAll(dir); err != nil {
				return err
			}
			err := removeTree(dir)
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("remove cgroup: %w", err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}

func killAll(dir string) error {
	err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	if err == nil {
		return nil
	}
	return eachGroup(dir, func(group string) error {
		data, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		if err != nil && !gone(err) {
			return err
		}
		for _, field := range strings.Fields(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				unix.Kill(pid, unix.SIGKILL)
			}
		}
		return nil
	})
}

func removeTree(dir string) error {
	return eachGroup(dir, func(group string) error {
		if err := os.Remove(group); err != nil && !gone(err) {
			return err
		}
		return nil
	})
}

// eachGroup calls f for every group below dir and then for dir, deepest first.
func eachGroup(dir string, f func(group string) error) error {
	var groups []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if gone(err) {
				return nil
			}
			return err
		}
		if d.IsDir() {
			groups = append(groups, path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, group := range slices.Backward(groups) {
		if err := f(group); err != nil {
			return err
		}
	}
	return nil
}

func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}
