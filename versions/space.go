package versions

import "teleport-update/internal/space"

// fewFiles is how many files a release may need, with room to spare.
const fewFiles = 256

// CheckRoom returns a *space.Error when a release that needs so many bytes does not
// fit; extra of them are to be free beside its record. It returns how many of them the
// record's own file system has to have.
func (s *Store) CheckRoom(need, extra int64) (atRecord int64, err error) {
	if s.together() {
		return need, space.Check(s.PartialDir(), need, fewFiles)
	}
	if err := space.Check(s.Programs, need-extra, fewFiles); err != nil {
		return 0, err
	}
	return extra, space.Check(s.PartialDir(), extra, fewFiles)
}

// Room is where a release that needs so many bytes would go, and how many of them must be
// free there. The error says that the extra ones, beside its record, are not.
func (s *Store) Room(need, extra int64) (dir string, bytes int64, err error) {
	if s.together() {
		return s.Dir, need, nil
	}
	if err := space.Check(s.Dir, extra, 0); err != nil {
		return s.Dir, need, err
	}
	return s.Programs, need - extra, nil
}

// together reports whether records and programs share a file system.
func (s *Store) together() bool {
	return !s.apart() || space.SameFileSystem(s.Programs, s.Dir)
}
