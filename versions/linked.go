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
		name, err := versionOfLink(path, s.Dir)
		if err != nil {
			return nil, err
		}
		if name != "" {
			links = append(links, path)
		}
	}
	return links, nil
}

// versionOfLink returns the entry of versionsDir that a link leads into, by
// what it says and by where it ends; empty for a link that leads elsewhere.
func versionOfLink(path, versionsDir string) (string, error) {
	target, err := os.Readlink(path)
	if err != nil {
		return "", err
	}
	return versionOfTarget(path, target, versionsDir)
}

// versionOfTarget is versionOfLink for a link that need not be at path any more.
func versionOfTarget(path, target, versionsDir string) (string, error) {
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(path), target)
	}
	if name := entryOf(target, versionsDir); name != "" {
		return name, nil
	}
	// The folder may have two names, of which the link uses the other.
	end, err := filepath.EvalSymlinks(target)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EIO) {
		return "", err
	}
	if err != nil {
		return "", nil // dangling, or a circle: not into anything that exists
	}
	real, err := filepath.EvalSymlinks(versionsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return entryOf(end, real), err
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
	name, err := versionOfTarget(path, target, s.Dir)
	return name != "", err
}
