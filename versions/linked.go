package versions

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// LinksInto returns the links of a folder that lead into the store, whether
// what they lead to exists or not. A folder that is not there has none.
func (s *Store) LinksInto(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var links []string
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		path := filepath.Join(dir, e.Name())
		name, err := s.versionOfLink(path)
		if err != nil {
			return nil, err
		}
		if name != "" {
			links = append(links, path)
		}
	}
	return links, nil
}

// versionOfLink returns the entry of the store that a link leads into, by
// what it says and by where it ends; empty for a link that leads elsewhere.
func (s *Store) versionOfLink(path string) (string, error) {
	target, err := os.Readlink(path)
	if err != nil {
		return "", err
	}
	return s.versionOfTarget(path, target)
}

// versionOfTarget is versionOfLink for a link that need not be at path any more.
func (s *Store) versionOfTarget(path, target string) (string, error) {
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(path), target)
	}
	for _, dir := range s.places() {
		if name := entryOf(target, dir); name != "" {
			return name, nil
		}
	}
	// The folder may have two names, of which the link uses the other.
	end, err := filepath.EvalSymlinks(target)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EIO) {
		return "", err
	}
	if err != nil {
		return "", nil // dangling, or a circle: not into anything that exists
	}
	dirs, err := s.realPlaces()
	for _, dir := range dirs {
		if name := entryOf(end, dir); name != "" {
			return name, nil
		}
	}
	return "", err
}

// realPlaces are the places without links on the way, as the kernel names what runs
// from them; those that are there.
func (s *Store) realPlaces() (dirs []string, err error) {
	for _, dir := range s.places() {
		real, err := filepath.EvalSymlinks(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, real)
	}
	return dirs, nil
}

// entryOf returns the first name of path below dir, empty for a path that is
// not below it.
func entryOf(path, dir string) string {
	rel, err := filepath.Rel(dir, filepath.Clean(path))
	if err != nil || rel == "." || rel == ".." || strings.HasPrefix(rel, "../") {
		return ""
	}
	name, _, _ := strings.Cut(rel, "/")
	return name
}

// Holds reports whether a link at path, which need not be there any more, leads
// into the store.
func (s *Store) Holds(path, target string) (bool, error) {
	name, err := s.versionOfTarget(path, target)
	return name != "", err
}
