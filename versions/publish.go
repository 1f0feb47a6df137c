package versions

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"teleport-update/internal/durable"
	"teleport-update/internal/version"
)

// publish gives a finished staging tree its final name. A tree that has the
// name changes places with it in one step, and its backup/ is in both by then,
// so that at no instant the name stands for less than a whole version with the
// database that belongs to it.
func (s *Store) publish(staging string, r Release, digest string) (Tree, error) {
	final, err := s.place(r)
	if err != nil {
		return Tree{}, fmt.Errorf("publish version %s: %w", r, err)
	}
	tree := Tree{Dir: final, Release: r, SHA256: digest}
	err = durable.Rename(staging, final)
	if err == nil {
		return tree, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return Tree{}, fmt.Errorf("publish version %s: %w", r, err)
	}
	if err := durable.LinkFiles(tree.BackupDir(), filepath.Join(staging, backupName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Tree{}, fmt.Errorf("publish version %s: keep its database backup: %w", r, err)
	}
	if err := durable.Exchange(staging, final); err != nil {
		return Tree{}, fmt.Errorf("publish version %s: %w", r, err)
	}
	// The old tree has the staging name now. If it cannot be removed, the next
	// fetch does it.
	_ = os.RemoveAll(staging)
	return tree, nil
}

// place chooses the folder for a release: the one that it is in, else VERSION, or
// VERSION_EDITION where VERSION is taken by another edition or by something that
// is no folder.
func (s *Store) place(r Release) (string, error) {
	plain, qualified := folders(r)
	free := ""
	for _, name := range []string{plain, qualified} {
		path := filepath.Join(s.Dir, name)
		e, taken, err := editionAt(path)
		switch {
		case err != nil:
			return "", err
		case taken && e == r.Edition:
			return path, nil
		case free == "" && (!taken || e == ""):
			free = path
		}
	}
	if free == "" {
		return "", fmt.Errorf("%s and %s are taken by something else: move them away", filepath.Join(s.Dir, plain), qualified)
	}
	return free, nil
}

// editionAt returns the edition of the release at path; none if it is a folder of
// which nobody can tell any more. Not taken means that nothing is there.
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
