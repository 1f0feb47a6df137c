package versions

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
)

// Discard removes one release that proved useless, unless a link leads into it or a process runs
// from it. The caller must keep transactions out.
func (s *Store) Discard(t Tree, linkDirs []string) error {
	name := filepath.Base(t.Dir)
	linked, err := s.linked(linkDirs)
	if err != nil {
		return fmt.Errorf("discard version %s: %w", t.Release, err)
	}
	running, err := s.running([]Entry{{Name: name, Kind: Complete}})
	if err != nil {
		return fmt.Errorf("discard version %s: %w", t.Release, err)
	}
	if slices.Contains(linked, name) || slices.Contains(running, name) {
		return fmt.Errorf("discard version %s: it is in use", t.Release)
	}
	_, err = s.remove(name)
	return err
}

// removeUnclaimed removes a release that no command claims.
func (s *Store) removeUnclaimed(name string) (claimed bool, err error) {
	dir := filepath.Join(s.Dir, name)
	folder, err := lockFolder(dir, unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return true, err // a fetch has just exchanged it
		}
		return s.remove(name) // programs alone
	case err != nil:
		return false, err
	}
	// The lock is held until the folder has lost its name, so that a waiting command notices that.
	defer folder.Close()
	return s.remove(name)
}

// remove removes a release, its record first: after a cut in between, the programs are no release
// any more, but an Incomplete entry for the next Retain. The programs also stay for the next
// Retain while a fetch is at work: it may be about to publish their record.
func (s *Store) remove(name string) (stays bool, err error) {
	if err := durable.RemoveAll(filepath.Join(s.Dir, name)); err != nil || !s.apart() {
		return false, err
	}
	if s.HasStaging() {
		return true, nil
	}
	if err := durable.RemoveAll(filepath.Join(s.Programs, name)); err != nil {
		return false, err
	}
	removeEmpty(s.Programs)
	return false, nil
}
