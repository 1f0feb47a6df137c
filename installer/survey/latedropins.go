package survey

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// LateDropIn is a file that adds to the agent's unit now, and that systemd does not find when it reads units at boot.
type LateDropIn struct {
	File   string
	Link   bool   // File is a symbolic link
	Folder bool   // its folder is one
	Target string // where File leads, if that is what is mounted late; empty if the folder of File is
}

// LateDropIns are those whose folder, or the file at the end of whose links, is mounted after systemd has read its units. A
// drop-in in /run is meant for this boot alone.
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
		told := func(d LateDropIn) bool { return d.Folder && filepath.Dir(d.File) == filepath.Dir(file) } // one command mends all of it
		if found != nil && !slices.ContainsFunc(late, told) {
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
	dir, link := filepath.Dir(file), target != ""
	mount, err := LateMount(s.from.Processes.MountAt, dir)
	if err == nil && mount != "" && filepath.Dir(dir) == s.from.Paths.UnitDir {
		var units string
		if units, err = LateMount(s.from.Processes.MountAt, s.from.Paths.UnitDir); units == mount {
			mount = "" // the folder of units has a row of its own
		}
	}
	if err != nil {
		return nil, err
	}
	if mount != "" {
		to, err := linkOf(dir)
		return &LateDropIn{File: file, Link: link, Folder: to != ""}, err
	}
	for range mostLinks {
		if target == "" {
			return nil, nil
		}
		// Of each link on the way: the next one may be on a file system that is there.
		if mount, err = LateMount(s.from.Processes.MountAt, filepath.Dir(target)); err != nil {
			return nil, err
		}
		if mount != "" {
			return &LateDropIn{File: file, Link: link, Target: target}, nil
		}
		if target, err = linkOf(target); err != nil {
			return nil, err
		}
	}
	return nil, &fs.PathError{Op: "follow the links of", Path: file, Err: syscall.ELOOP}
}

// mostLinks is how many links the kernel follows.
const mostLinks = 40

// linkOf is where a symbolic link leads; empty for any other file, and for none.
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
