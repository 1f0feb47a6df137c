package versions

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"teleport-update/internal/space"
)

// fewFiles is how many files a release may need, with room to spare.
const fewFiles = 256

// need returns how many bytes must be free for a release whose tarball has length
// bytes; below zero: nobody knows.
func (req FetchRequest) need(length int64) (int64, error) {
	if req.Active == nil {
		return spaceNeeded(0, length, req.Extra), nil
	}
	active, err := req.Active.size()
	if err != nil {
		return 0, fmt.Errorf("measure the active version: %w", err)
	}
	return spaceNeeded(active, length, req.Extra), nil
}

// spaceNeeded estimates, in bytes, what a release takes until it is published: what
// the running one takes and a fifth more, or four times its tarball, whatever is
// larger. (RFD 0169 compares the tarball's length itself, which is that of the
// compressed release.)
func spaceNeeded(active, length, extra int64) int64 {
	return max(active+active/5, 4*length, 0) + extra
}

// checkRoom refuses a release that there is no room for; need and extra are those of
// the request. It returns how much of it the record's own file system has to have.
func (s *Store) checkRoom(need, extra int64) (atRecord int64, err error) {
	if !s.apart() || space.SameFileSystem(s.Programs, s.Dir) {
		return need, space.Check(s.PartialDir(), need, fewFiles)
	}
	if err := space.Check(s.Programs, need-extra, fewFiles); err != nil {
		return 0, err
	}
	return extra, space.Check(s.PartialDir(), extra, fewFiles)
}

// size returns the bytes of a tree, without its backup.
func (t Tree) size() (bytes int64, err error) {
	err = filepath.WalkDir(t.ProgramsDir(), func(path string, d fs.DirEntry, err error) error {
		if path == t.Programs && errors.Is(err, fs.ErrNotExist) {
			return nil // somebody removed its programs
		}
		if err != nil {
			return err
		}
		if d.IsDir() && path == t.BackupDir() {
			return fs.SkipDir
		}
		if d.Type().IsRegular() {
			info, err := d.Info()
			if err != nil {
				return err
			}
			bytes += info.Size()
		}
		return nil
	})
	return bytes, err
}
