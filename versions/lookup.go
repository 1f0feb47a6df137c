package versions

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"teleport-update/internal/version"
)

// Lookup finds the complete tree of a release. It reads three small files and proves nothing about
// the others: see Tree.Verify.
func (s *Store) Lookup(r Release) (Tree, bool, error) {
	if err := r.Check(); err != nil {
		return Tree{}, false, err
	}
	plain, qualified := folders(r)
	for _, name := range []string{plain, qualified} {
		t, err := s.readTree(name)
		switch {
		case err == nil && t.Release == r:
			return t, true, nil
		case err == nil, isIncomplete(err):
		default:
			return Tree{}, false, err
		}
	}
	return Tree{}, false, nil
}

// Folder finds the folder that a release is in, whole or not; only Dir and
// Release of the tree are known.
func (s *Store) Folder(r Release) (Tree, bool, error) { return s.marked(r, r.Edition) }

// Unmarked finds a folder with a release's name and an unreadable edition; only Dir and Release of
// the tree are known.
func (s *Store) Unmarked(r Release) (Tree, bool, error) { return s.marked(r, "") }

// marked finds a folder with a release's name and this edition.
func (s *Store) marked(r Release, edition version.Edition) (Tree, bool, error) {
	if err := r.Check(); err != nil {
		return Tree{}, false, err
	}
	plain, qualified := folders(r)
	for _, name := range []string{plain, qualified} {
		e, taken, err := editionAt(filepath.Join(s.Dir, name))
		if err != nil {
			return Tree{}, false, fmt.Errorf("look for version %s: %w", r, err)
		}
		if taken && e == edition {
			t := s.treeIn(name)
			t.Release = r
			return t, true, nil
		}
	}
	return Tree{}, false, nil
}

// readTree reads the folder of that name as a complete release. An error that isIncomplete means
// that it is no complete release; after another error that is not known.
func (s *Store) readTree(name string) (Tree, error) {
	v, e, ok := parseFolder(name)
	if !ok {
		return Tree{}, &incompleteError{"not a version's name"}
	}
	dir := filepath.Join(s.Dir, name)
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Tree{}, &incompleteError{"not there"}
	}
	if err != nil {
		return Tree{}, fmt.Errorf("look up version %s: %w", name, err)
	}
	if !info.IsDir() {
		return Tree{}, &incompleteError{"not a folder"}
	}
	word, err := readMarker(filepath.Join(dir, editionName), 64)
	if err != nil {
		return Tree{}, err
	}
	edition, err := version.ParseEdition(word)
	if err != nil {
		return Tree{}, &incompleteError{err.Error()}
	}
	if e != "" && e != edition {
		return Tree{}, &incompleteError{"its name and its edition disagree"}
	}
	digest, err := readMarker(filepath.Join(dir, digestName), 256)
	origin := ""
	if isIncomplete(err) {
		from, other := readMarker(filepath.Join(dir, originName), 256)
		if other == nil && from != "" || other != nil && !isIncomplete(other) {
			origin, err = from, other
		}
	}
	if err != nil {
		return Tree{}, err
	}
	if origin == "" && !IsDigest(digest) {
		return Tree{}, &incompleteError{"sha256 holds no digest"}
	}
	if info, err := os.Lstat(filepath.Join(dir, manifestName)); errors.Is(err, fs.ErrNotExist) {
		return Tree{}, &incompleteError{"manifest is missing"}
	} else if err != nil {
		return Tree{}, fmt.Errorf("look up version %s: %w", name, err)
	} else if !info.Mode().IsRegular() {
		return Tree{}, &incompleteError{"manifest is not a regular file"}
	}
	t := s.treeIn(name)
	t.Release, t.SHA256, t.Origin = Release{Version: v, Edition: edition}, digest, origin
	return t, nil
}

// editionAt returns the edition of the release at path; empty if the folder's edition cannot be
// read. Not taken means that nothing is there.
func editionAt(path string) (e version.Edition, taken bool, err error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil || !info.IsDir() {
		return "no folder", true, err
	}
	word, err := readMarker(filepath.Join(path, editionName), 64)
	if err != nil && !isIncomplete(err) {
		return "", true, err
	}
	if e, err = version.ParseEdition(word); err != nil {
		e = ""
	}
	return e, true, nil
}
