package versions

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
)

// LinksInto returns the links of a folder that lead into the store, whether or not their targets
// exist. A folder that does not exist has none.
func (s *Store) LinksInto(dir string) ([]string, error) {
	links, err := s.linksInto(dir)
	return slices.Sorted(maps.Keys(links)), err
}

// linksInto is LinksInto with the entry of the store that each link leads into.
func (s *Store) linksInto(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	links := make(map[string]string)
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 || durable.IsTemp(e.Name()) { // a spare is no name that anybody runs
			continue
		}
		path := filepath.Join(dir, e.Name())
		target, err := os.Readlink(path)
		if err != nil {
			return nil, err
		}
		name, err := s.versionOfTarget(path, target)
		if err != nil {
			return nil, err
		}
		if name != "" {
			links[path] = name
		}
	}
	return links, nil
}

// versionOfTarget returns the entry of the store that a link leads into, by its text and by its
// end; empty for a link that leads elsewhere. The link need not exist any more.
func (s *Store) versionOfTarget(path, target string) (string, error) {
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(path), target)
	}
	if name := entryOf(target, s.places()...); name != "" {
		return name, nil
	}
	// The folder may have two names, and the link may use the other.
	end, err := filepath.EvalSymlinks(target)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EIO) {
		return "", err
	}
	if err != nil {
		return "", nil // dangling, or a circle: not into anything that exists
	}
	dirs, err := s.realPlaces()
	return entryOf(end, dirs...), err
}

// Named returns the release whose folder a link at path names: the folder may be gone. The edition is known only if the
// folder's name has it.
func (s *Store) Named(path, target string) (Release, bool) {
	name, err := s.versionOfTarget(path, target)
	if err != nil {
		return Release{}, false
	}
	v, edition, ok := parseFolder(name)
	return Release{Version: v, Edition: edition}, ok
}

// realPlaces returns the existing places with all links resolved, as the kernel names the programs
// that run from them.
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

// entryOf returns the first name of path below the first folder in dirs that is above it;
// otherwise "".
func entryOf(path string, dirs ...string) string {
	for _, dir := range dirs {
		if rel, err := filepath.Rel(dir, path); err == nil && rel != "." && filepath.IsLocal(rel) {
			name, _, _ := strings.Cut(rel, "/")
			return name
		}
	}
	return ""
}

// Holds reports whether a link at path, which need not exist any more, leads into the store.
func (s *Store) Holds(path, target string) (bool, error) {
	name, err := s.versionOfTarget(path, target)
	return name != "", err
}
