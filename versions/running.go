package versions

import (
	"path/filepath"
	"strings"
)

// ReleaseOf says of which release a file is, by where it lies in the store, as the
// kernel names what a process executes: the tree may be gone by then, and with it the
// edition, where the name of its folder does not say it.
func (s *Store) ReleaseOf(file string) (Release, bool) {
	name := ""
	for _, dir := range s.places() {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		if inside, ok := strings.CutPrefix(file, dir+"/"); ok {
			name, _, _ = strings.Cut(inside, "/")
		}
	}
	v, edition, ok := parseFolder(name)
	if !ok {
		return Release{}, false
	}
	if edition == "" {
		if tree, err := s.readTree(name); err == nil {
			edition = tree.Release.Edition
		}
	}
	return Release{Version: v, Edition: edition}, true
}
