package versions

import (
	"os"
	"path/filepath"
	"slices"

	"teleport-update/internal/durable"
)

// Executing returns the folders of versions from which a process executes; programs named except do not count. If some process
// may not be looked at, unseen says so, and dirs are the folders of all versions.
func (s *Store) Executing(except string) (dirs []string, unseen, err error) {
	entries, err := s.List()
	if err != nil {
		return nil, nil, err
	}
	entries = slices.DeleteFunc(entries, func(e Entry) bool { return !e.holdsPrograms() })
	if len(entries) == 0 {
		return nil, nil, nil
	}
	names, unseen := s.runningBut(entries, except)
	for _, e := range entries {
		if unseen == nil && !slices.Contains(names, e.Name) {
			continue
		}
		for _, place := range s.places() {
			dir := filepath.Join(place, e.Name)
			// The record of programs that are elsewhere has a link to them.
			if info, err := os.Lstat(filepath.Join(dir, binName)); err == nil && info.IsDir() {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs, unseen, nil
}

// Clear removes the store except for the folders of versions in stays, the records named last after everything else. It can be cut
// off anywhere and repeated.
func (s *Store) Clear(stays []string, last string) error {
	if s.apart() {
		entries, err := s.listPrograms()
		if err != nil {
			return err
		}
		paths := s.stagedPrograms()
		for _, e := range entries {
			paths = append(paths, filepath.Join(s.Programs, e.Name))
		}
		if err := removeBut(paths, stays); err != nil {
			return err
		}
		if err := durable.RemoveEmpty(s.Programs); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(stays, func(dir string) bool { return filepath.Dir(dir) == s.Dir }) {
		return durable.RemoveMounted(s.Dir, last)
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return err
	}
	var paths []string
	for _, e := range entries {
		if e.Name() != last {
			paths = append(paths, filepath.Join(s.Dir, e.Name()))
		}
	}
	return removeBut(append(paths, filepath.Join(s.Dir, last)), stays)
}

func removeBut(paths, stays []string) error {
	for _, path := range paths {
		if slices.Contains(stays, path) {
			continue
		}
		if err := durable.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}
