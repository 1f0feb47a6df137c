package transaction

import (
	"os"
	"path/filepath"
	"slices"
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

// An undoing has systemd read a unit, and a proven version gets the updater's link: a file system without room keeps a transaction open
// only if the rest of it writes there.
func TestTheFileSystemThatKeepsATransactionOpenIsNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		full  func(p state.Paths, run string) string
		named []state.Phase
	}{
		"records": {func(p state.Paths, _ string) string { return p.Versions() }, []state.Phase{begun, switched, rollingBack, restored, proven, replacing}},
		"/run":    {func(_ state.Paths, run string) string { return run }, []state.Phase{begun, switched, rollingBack, restored}},
		"links":   {func(p state.Paths, _ string) string { return p.LinkDir }, []state.Phase{proven, replacing}},
		"units":   {func(p state.Paths, _ string) string { return p.UnitDir }, nil},
	} {
		m, run := testMachine(t), t.TempDir()
		paths := m.Host.Paths
		dir := tc.full(paths, run)
		must(t, os.MkdirAll(dir, 0o755))
		mounts(t, "tmpfs", dir, "tmpfs", 0, "nr_inodes=1")
		for _, row := range phases()[1:] {
			full := FullFor(&state.Journal{Phase: row.name}, paths, run)
			if named := full != nil && full.Path == dir; named != slices.Contains(tc.named, row.name) {
				t.Errorf("%s, %s: named is %v", name, row.name, full)
			}
		}
	}
}
