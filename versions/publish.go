package versions

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"teleport-update/internal/durable"
)

// publish gives a finished staging tree its final name. If a tree has the
// name already, the two change places in one step, and backup/ is in both by then.
// So at no instant the name stands for less than a whole version with its own
// database.
//
// Programs that have a place of their own come first: the record makes them a release.
// If both exist already, a cut between the two leaves whole programs that do not match
// the record: a comparison reports them as damaged.
func (s *Store) publish(at staging, r, sibling Release, digest string) (_ Tree, err error) {
	final, err := s.place(r, sibling)
	if err != nil {
		return Tree{}, fmt.Errorf("publish version %s: %w", r, err)
	}
	tree := s.treeIn(filepath.Base(final))
	tree.Release, tree.SHA256 = r, digest
	if s.apart() {
		var takeBack func() error
		if takeBack, err = publishPrograms(at, tree); err != nil {
			return Tree{}, fmt.Errorf("publish version %s: %w", r, err)
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, takeBack())
			}
		}()
	}
	staging := at.record
	err = durable.Rename(staging, final)
	if err == nil {
		if s.apart() {
			at.remove() // programs that were there without a record
		}
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
	at.remove()
	return tree, nil
}

// publishPrograms gives programs their final name, and gives their record the links by which people
// find the programs and compare them with the manifest. It returns a function that takes the name from
// them again.
func publishPrograms(at staging, tree Tree) (takeBack func() error, err error) {
	for _, name := range []string{binName, etcName} {
		if err := durable.RelinkNoSync(filepath.Join(tree.Programs, name), filepath.Join(at.record, name)); err != nil {
			return nil, err
		}
	}
	if err := durable.SyncDir(at.record); err != nil {
		return nil, err
	}
	move := durable.Rename
	err = move(at.programs, tree.Programs)
	if errors.Is(err, fs.ErrExist) {
		if info, err := os.Lstat(tree.Programs); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("%s is no folder of ours: move it away", tree.Programs)
		}
		move = durable.Exchange
		err = move(at.programs, tree.Programs)
	}
	return func() error { return move(tree.Programs, at.programs) }, err
}

// place chooses the folder for a release: its present one, else VERSION, or VERSION_EDITION if
// another edition, or something that is no folder, has the name VERSION. A folder whose edition
// cannot be read belongs to sibling if it has sibling's version.
func (s *Store) place(r, sibling Release) (string, error) {
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
		case taken && e == "" && name == sibling.Version && sibling.Edition != r.Edition:
		case !s.mayHold(name):
		case taken && e == "" && name == qualified:
			return path, nil // by its name it is this release's
		case free == "" && (!taken || e == ""):
			free = path
		}
	}
	if free == "" {
		return "", fmt.Errorf("%s and %s are taken by something else: move them away", filepath.Join(s.Dir, plain), qualified)
	}
	return free, nil
}

// mayHold reports whether programs can be put under a name of their own place: only a folder there
// can be replaced.
func (s *Store) mayHold(name string) bool {
	info, err := os.Lstat(filepath.Join(s.Programs, name))
	return !s.apart() || err != nil || info.IsDir()
}
