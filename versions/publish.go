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

// place chooses the folder for a release: VERSION, or VERSION_EDITION where
// VERSION is taken by another edition or by something that is no folder.
func (s *Store) place(r Release) (string, error) {
	plain, qualified := r.folders()
	for _, name := range []string{plain, qualified} {
		path := filepath.Join(s.Dir, name)
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
		if err != nil {
			return "", err
		}
		if !info.IsDir() {
			continue
		}
		word, err := readMarker(filepath.Join(path, editionName), 64)
		if err != nil && !isIncomplete(err) {
			return "", err
		}
		if e, err := version.ParseEdition(word); err != nil || e == r.Edition {
			return path, nil // ours, or nobody can tell any more
		}
	}
	return "", fmt.Errorf("%s and %s are taken by something else: move them away", filepath.Join(s.Dir, plain), qualified)
}
