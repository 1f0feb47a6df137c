package survey

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// LateDropIn is a file that adds to the agent's unit now, and that systemd does not find when it reads units at boot.
type LateDropIn struct {
	File  string
	Mount string // on the way to its content, and not there yet when systemd reads units
}

// LateDropIns returns the drop-ins whose folder, or the file at the end of whose links, is mounted after systemd has read
// its units. A drop-in in /run is meant for this boot alone.
func (s *Survey) LateDropIns(ctx context.Context) (late []LateDropIn, err error) {
	a, err := s.Agent(ctx)
	if err != nil {
		return nil, err
	}
	for _, file := range a.DropIns {
		if strings.HasPrefix(file, "/run/") {
			continue
		}
		found, err := s.lateDropIn(file)
		if err != nil {
			return late, err
		}
		if found != nil {
			late = append(late, *found)
		}
	}
	return late, nil
}

// lateDropIn is nil for a drop-in that systemd finds at boot. Its folder counts, and if it is a link, what that leads to.
func (s *Survey) lateDropIn(file string) (*LateDropIn, error) {
	mount, err := s.lateOnTheWay(filepath.Dir(file))
	if mount == "" && err == nil {
		var target string
		if target, err = linkOf(file); target != "" {
			mount, err = s.lateOnTheWay(target)
		}
	}
	if mount == "" || err != nil {
		return nil, err
	}
	return &LateDropIn{File: file, Mount: mount}, nil
}

// lateOnTheWay returns the late mount of a path, or of a link that it leads to. A drop-in in the folder of
// the updater's own units is not named: the condition of that folder comes first.
func (s *Survey) lateOnTheWay(path string) (string, error) {
	own := ""
	for range mostLinks {
		mount, err := s.lateMount(filepath.Dir(path))
		switch {
		case err != nil:
			return "", err
		case filepath.Dir(path) == s.from.Paths.UnitDir:
			own = mount
		case mount != "":
			return mount, nil
		}
		next, err := linkOf(path)
		if err != nil {
			return "", err
		}
		if next == "" {
			if mount, err = s.lateMount(path); mount == own { // a file system may be mounted there
				mount = ""
			}
			return mount, err
		}
		path = next
	}
	return "", &fs.PathError{Op: "follow the links of", Path: path, Err: syscall.ELOOP}
}

// mostLinks is how many links the kernel follows.
const mostLinks = 40

// linkOf returns the target of a symbolic link; empty for any other file, and for a missing one.
func linkOf(path string) (target string, err error) {
	target, err = os.Readlink(path)
	switch {
	case errors.Is(err, syscall.EINVAL), errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case filepath.IsAbs(target):
		return filepath.Clean(target), nil
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path)) // else ".." leads elsewhere
	return filepath.Join(dir, target), err
}

// lateMount is LateMount of the survey's host.
func (s *Survey) lateMount(dir string) (string, error) {
	return LateMount(s.from.Processes.MountAt, s.from.Boot, dir)
}
