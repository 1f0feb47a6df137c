package versions

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"teleport-update/internal/durable"
	"teleport-update/internal/space"
	"teleport-update/internal/trust"
)

const stagingPrefix = ".staging-"

// staging holds the folders in which a release is built: one for its record and one for its
// programs, each on its final file system. They may be the same.
type staging struct{ record, programs string }

// stage makes the folders for a release. After an error, remove cleans up.
func (s *Store) stage(r Release) (staging, error) {
	return s.stageIn(s.PartialDir(), func(dir string) (string, error) { return os.MkdirTemp(dir, stagingPrefix+r.Version+"-") })
}

// stageIn makes the folder of a record in records, and the folder of its programs in their place.
func (s *Store) stageIn(records string, mkdir func(dir string) (string, error)) (at staging, err error) {
	if at.record, err = mkdir(records); err != nil {
		return staging{}, space.Explain(err, records)
	}
	if at.programs = at.record; !s.apart() {
		return at, nil
	}
	if err := os.Chmod(at.record, 0o755); err != nil {
		return at, err
	}
	if err := s.makePrograms(); err != nil {
		return at, err
	}
	if at.programs, err = mkdir(s.Programs); err != nil {
		return staging{record: at.record}, space.Explain(err, s.Programs)
	}
	return at, nil
}

// makePrograms makes the folder of programs, which everybody may enter. Another user who could
// make names in it, or exchange it, could have root run a program of theirs.
func (s *Store) makePrograms() error {
	err := trust.Path(s.Programs)
	if err == nil {
		if err := durable.MkdirAll(s.Programs, 0o755); err != nil {
			return space.Explain(err, filepath.Dir(s.Programs))
		}
		err = trust.Path(s.Programs)
	}
	if err != nil {
		return fmt.Errorf("the programs of versions cannot be put into %s: %w; give it to root alone", s.Programs, err)
	}
	return nil
}

// remove removes the leftovers of the folders. If it cannot, the next fetch does.
func (at staging) remove() {
	_ = durable.RemoveTemp(at.record)
	if at.programs != at.record && at.programs != "" {
		_ = durable.RemoveTemp(at.programs)
		removeEmpty(filepath.Dir(at.programs))
	}
}

// removeEmpty removes the folder of programs if it is empty: a host without a version is as it was
// before the first one. A link is an administrator's, and stays.
func removeEmpty(programs string) { _ = durable.RemoveEmpty(programs) }

// HasStaging reports whether there are trees and downloads that a fetch has only
// while it is at work, or leaves when it is cut off.
func (s *Store) HasStaging() bool { return len(s.staging()) > 0 }

// CleanStaging removes what HasStaging reports. The caller must keep fetches out.
// Kept downloads stay: the next fetch goes on with them.
func (s *Store) CleanStaging() error {
	var errs []error
	for _, path := range s.staging() {
		errs = append(errs, durable.RemoveTemp(path))
	}
	return errors.Join(errs...)
}

// staging returns the trees that were begun and not published, and the downloads without a file of
// InfoSuffix: they were not worth keeping, see keeper in package fetch.
func (s *Store) staging() []string {
	paths := s.stagedPrograms()
	entries, err := os.ReadDir(s.PartialDir())
	if err != nil {
		return paths
	}
	for _, e := range entries {
		path := filepath.Join(s.PartialDir(), e.Name())
		digest, isPart := strings.CutSuffix(path, PartSuffix)
		if isPart {
			_, err := os.Lstat(digest + InfoSuffix)
			isPart = errors.Is(err, fs.ErrNotExist)
		}
		if isPart || strings.HasPrefix(e.Name(), stagingPrefix) {
			paths = append(paths, path)
		}
	}
	return paths
}

// stagedPrograms returns the unpublished trees in the programs' own place.
func (s *Store) stagedPrograms() (paths []string) {
	if !s.apart() {
		return nil
	}
	entries, _ := os.ReadDir(s.Programs)
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), stagingPrefix) {
			paths = append(paths, filepath.Join(s.Programs, e.Name()))
		}
	}
	return paths
}
