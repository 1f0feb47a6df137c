package versions

import "teleport-update/internal/space"

// fewFiles is the number of files that a release may need, with room to spare.
const fewFiles = 256

// CheckRoom returns a *space.Error if a release that needs so many bytes does not fit; extra bytes
// of need must be free beside its record. It returns the number of bytes that must be free in the
// record's own file system.
func (s *Store) CheckRoom(need, extra int64) (atRecord int64, err error) {
	if s.together() {
		return need, space.Check(s.PartialDir(), need, fewFiles)
	}
	if err := space.Check(s.Programs, need-extra, fewFiles); err != nil {
		return 0, err
	}
	return extra, space.Check(s.PartialDir(), extra, fewFiles)
}

// Room returns the folder for a release that needs so many bytes, and how many of them must be
// free there. It returns an error if there is no room for the extra bytes beside the record.
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
