package versions

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"teleport-update/internal/procfs"
)

// InUse returns the entries that a link leads into or a process runs from.
func (s *Store) InUse(linkDirs []string) ([]string, error) {
	entries, err := s.List()
	if err != nil {
		return nil, err
	}
	used, err := s.linked(linkDirs)
	if err != nil {
		return nil, fmt.Errorf("find out what links lead to: %w", err)
	}
	if slices.ContainsFunc(entries, Entry.holdsPrograms) {
		running, err := s.running(entries)
		if err != nil {
			return nil, fmt.Errorf("find out what runs: %w", err)
		}
		used = append(used, running...)
	}
	slices.Sort(used)
	return slices.Compact(used), nil
}

// linked returns the entries that links in the folders lead into.
func (s *Store) linked(dirs []string) ([]string, error) {
	var names []string
	for _, dir := range dirs {
		links, err := s.linksInto(dir)
		if err != nil {
			return nil, err
		}
		names = slices.AppendSeq(names, maps.Values(links))
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// running returns the entries that a process executes from.
func (s *Store) running(entries []Entry) ([]string, error) { return s.runningBut(entries, "") }

// runningBut is running, except for processes of one program, by its name.
func (s *Store) runningBut(entries []Entry, except string) ([]string, error) {
	// Files count by identity, too: a process in another mount namespace has other paths.
	owner, programs := make(map[procfs.FileID]string), make(map[string]bool)
	for _, e := range entries {
		if !e.holdsPrograms() {
			continue
		}
		for _, dir := range s.places() {
			if err := identify(dir, e.Name, owner, programs); err != nil {
				return nil, err
			}
		}
	}
	processes := procfs.FS{Proc: s.ProcDir}
	executables, err := processes.Executables()
	if err != nil {
		return nil, err
	}
	dirs, err := s.realPlaces()
	if len(dirs) == 0 || err != nil {
		return nil, err
	}
	var names []string
	for _, e := range otherThan(executables, except) {
		if e.Hidden != nil {
			if err := mayBe(processes, e, programs); err != nil {
				return nil, err
			}
			continue
		}
		// A file that lost its name counts, too: the process may start the files next to it.
		for _, dir := range dirs {
			if name := entryOf(e.Path, dir); name != "" {
				names = append(names, name)
			}
		}
		if name, ok := owner[e.File]; ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// otherThan returns the executables without one program, by its name.
func otherThan(executables []procfs.Executable, except string) []procfs.Executable {
	if except == "" {
		return executables
	}
	return slices.DeleteFunc(executables, func(e procfs.Executable) bool {
		return strings.TrimSuffix(filepath.Base(e.Path), " (deleted)") == except
	})
}

// mayBe returns an error if a process that may not be looked at has the name of one of the
// programs. A process with another name runs no program of ours: otherwise one sandbox on the host
// would keep every version for good.
func mayBe(processes procfs.FS, e procfs.Executable, programs map[string]bool) error {
	for program := range programs {
		if processes.Calls(e.PID, program) {
			return fmt.Errorf("process %d calls itself %s and may not be looked at: %w", e.PID, program, e.Hidden)
		}
	}
	return nil
}

// identify notes an entry's files in one of the places, except its backup, and the names of its
// programs.
func identify(place, name string, owner map[procfs.FileID]string, programs map[string]bool) error {
	top := filepath.Join(place, name)
	return filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if path == top && errors.Is(err, fs.ErrNotExist) {
			return nil // it has nothing here
		}
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path == filepath.Join(top, backupName) {
				return fs.SkipDir
			}
			return nil
		}
		id, err := procfs.Identify(path, unix.AT_SYMLINK_NOFOLLOW)
		if err != nil {
			return err
		}
		owner[id] = name
		if filepath.Dir(path) == filepath.Join(top, binName) {
			programs[d.Name()] = true
		}
		return nil
	})
}
