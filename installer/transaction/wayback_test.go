package transaction

import (
	"os"
	"path/filepath"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/versions"
)

// Room helps a full folder alone.
func TestTheAdviceForFilesThatAnUndoingNeeds(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*testing.T, string)
		says  string
	}{
		"the folder is full":      {func(t *testing.T, dir string) { mounts(t, "tmpfs", dir, "tmpfs", 0, "nr_inodes=1") }, "free some space"},
		"the folder is read-only": {mountsReadOnly, "correct that"},
	} {
		t.Run(name, func(t *testing.T) {
			m := testMachine(t)
			dir := m.Host.Paths.LinkDir
			must(t, os.MkdirAll(dir, 0o755))
			tc.spoil(t, dir)
			links := []state.LinkChange{{Path: filepath.Join(dir, "teleport"), Target: "/new", Before: state.Before{Link: "/old"}}}
			x := &transaction{m: m, j: newOpenJournal(m.Host.Paths.Journal(), &state.Journal{Links: links})}
			if err := x.makeWayBack(t.Context(), versions.Tree{}); !saysAll(err, []string{tc.says}) {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}
