package versions

import (
	"cmp"
	"path/filepath"
	"strings"
)

// ReleaseOf returns the release of a file, by its path in the store, as the kernel names a running
// executable. The tree may be gone by then, and the edition with it, unless the name of its folder
// has it. A damaged tree that was fetched again bears a temporary name, see staging: processes
// from it still run that version.
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
