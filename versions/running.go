package versions

import (
	"cmp"
	"path/filepath"
	"strings"
)

// ReleaseOf says of which release a file is, by where it lies in the store, as the
// kernel names what a process executes: the tree may be gone by then, and with it the
// edition, where the name of its folder does not say it. A damaged tree that was fetched again
// bears a temporary name, see staging: what runs from it is of that version yet.
func (s *Store) ReleaseOf(file string) (Release, bool) {
	name := ""
	for _, dir := range s.places() {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		name = cmp.Or(entryOf(file, dir), name)
	}
	exchanged, staged := strings.CutPrefix(name, stagingPrefix)
	if staged {
		name = exchanged[:max(0, strings.LastIndexByte(exchanged, '-'))]
	}
	v, edition, ok := parseFolder(name)
	if !ok {
		return Release{}, false
	}
	if edition == "" && !staged {
		if tree, err := s.readTree(name); err == nil {
			edition = tree.Release.Edition
		}
	}
	return Release{Version: v, Edition: edition}, true
}
