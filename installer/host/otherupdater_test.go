package host

import (
	"os"
	"path/filepath"
	"testing"

	"teleport-update/installer/state"
)

// Another updater may come back after it was replaced, or a second one come. No copy of their files stays.
func TestASecondReplacementKeepsTheRecordOfTheFirst(t *testing.T) {
	h := testHost(t)
	dir := t.TempDir()
	paths := map[string]string{"first": filepath.Join(dir, "first"), "both": filepath.Join(dir, "both"), "second": filepath.Join(dir, "second")}
	replace := func(names ...string) {
		var files []state.LinkChange
		for _, name := range names {
			must(t, os.WriteFile(paths[name], []byte(names[0]), 0o600))
			before, err := beforeOf(paths[name])
			must(t, err)
			files = append(files, state.LinkChange{Path: paths[name], Before: before})
		}
		for range 2 { // it may be cut off, and begins again
			must(t, h.RemoveReplaced(files))
		}
	}
	must(t, h.WriteOriginals(Originals{}))
	replace("first", "both")
	replace("second", "both")
	must(t, h.RemoveReplaced(nil)) // asked for once more, with nothing there
	o, err := h.Originals()
	must(t, err)
	if !o.Replaced {
		t.Error("the record does not name a replacement")
	}
	if kept, err := os.ReadDir(h.Paths.Original()); err != nil || len(kept) != 1 {
		t.Errorf("beside the record, copies stay: %v, %v", kept, err)
	}
	for name, path := range paths {
		if Exists(path) {
			t.Errorf("%s is still there", name)
		}
	}
}
