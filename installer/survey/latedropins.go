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
	File   string
	Link   bool   // File is a symbolic link
	Target string // where File leads, if that is mounted late; empty if the folder of File is
	Leads  string // where the folder of File leads, if only that is mounted late
	Mount  bool   // a late file system is mounted on the folder of File
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

// lateDropIn is nil for a drop-in that systemd finds at boot.
func (s *Survey) lateDropIn(file string) (*LateDropIn, error) {
	target, err := linkOf(file)
	if err != nil {
		return nil, err
	}
	late, err := s.lateFolder(filepath.Dir(file))
	if late == nil && err == nil && target != "" {
		if target, err = s.lateLink(file); target != "" {
			late = &LateDropIn{Target: target}
		}
	}
	if late == nil || err != nil {
		return nil, err
	}
	late.File, late.Link = file, target != ""
	return late, nil
}

// lateFolder says how a folder of drop-ins is late; nil if it is not. The folder of the updater's own units has a row of its own,
// which counts for the drop-ins on its mount only: the command that moves the units leaves the others as they are.
func (s *Survey) lateFolder(dir string) (*LateDropIn, error) {
	parent := filepath.Dir(dir)
	above, err := s.lateMount(parent)
	if err != nil {
		return nil, err
	}
	mount, err := s.lateMount(dir)
	if err != nil {
		return nil, err
	}
	if above != "" {
		if parent == s.from.Paths.UnitDir && (mount == above || mount == "") {
			return nil, nil
		}
		return &LateDropIn{}, nil
	}
	leads, err := s.lateLink(dir)
	switch {
	case err != nil:
		return nil, err
	case leads != "":
		return &LateDropIn{Leads: leads}, nil
	case mount != "": // and the folder above is not on it
		return &LateDropIn{Mount: true}, nil
	}
	return nil, nil
}

// lateLink returns the target of a symbolic link, or of a link that it leads to, if a late file system has that; otherwise it is empty.
func (s *Survey) lateLink(path string) (string, error) {
	target, err := linkOf(path)
	for range mostLinks {
		if target == "" || err != nil {
			return "", err
		}
		next, err := linkOf(target)
		if err != nil {
			return "", err
		}
		// Each link on the way counts: the next one may be on a file system that is there.
		at := filepath.Dir(target)
		if next == "" {
			at = target // a file system may be mounted there
		}
		mount, err := s.lateMount(at)
		if err != nil {
			return "", err
		}
		if mount != "" {
			return target, nil
		}
		target = next
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
