package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// slowDisk is a cgroup whose processes write to a disk at a limited rate.
type slowDisk struct {
	dir   string
	procs string // the file that a process joins by
}

// throttle makes a cgroup, of version 2 or 1, that limits writes to the disk
// of a folder to a rate in bytes per second.
func throttle(folder string, rate int64) (*slowDisk, error) {
	var st unix.Stat_t
	if err := unix.Stat(folder, &st); err != nil {
		return nil, err
	}
	device := fmt.Sprintf("%d:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)))
	const v1 = "/sys/fs/cgroup/blkio"
	parent, file, limit := v1, "blkio.throttle.write_bps_device", fmt.Sprintf("%s %d", device, rate)
	if controllers, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers"); err == nil && strings.Contains(string(controllers), "io") {
		parent, file, limit = "/sys/fs/cgroup", "io.max", fmt.Sprintf("%s wbps=%d", device, rate)
	}
	dir, err := os.MkdirTemp(parent, "bench-")
	if err != nil {
		return nil, err
	}
	s := &slowDisk{dir: dir, procs: filepath.Join(dir, "cgroup.procs")}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(limit), 0); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

// remove waits for the last process to leave: the kernel is a little late.
func (s *slowDisk) remove() error {
	var err error
	for range 100 {
		if err = unix.Rmdir(s.dir); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}
