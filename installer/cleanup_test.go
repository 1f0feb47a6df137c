package installer

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/internal/durable"
)

func TestTheNextCommandClearsAwayWhatACutLeft(t *testing.T) {
	i := testInstaller(t)
	p := i.Machine.Host.Paths
	var gone []string
	for _, path := range []string{
		p.Config(), p.Journal(), p.Unit(), p.Updater(), p.Versions(),
		filepath.Join(p.LinkDir, "tsh"), filepath.Join(p.UnitDir, "timers.target.wants", "teleport-update.timer"),
		filepath.Join(p.Original(), "tsh-0123456789abcdef"), filepath.Join(p.Versions(), "1.0.0", "backup", "sqlite.db"),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := durable.CreateTemp(path)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		gone = append(gone, f.Name())
	}
	staging := filepath.Join(p.Versions(), "partial", ".staging-1.1.0-123", "bin")
	kept := filepath.Join(p.Versions(), "partial", strings.Repeat("a", 64)+".part")
	note := filepath.Join(p.Versions(), "partial", strings.Repeat("a", 64)+".json")
	fast := filepath.Join(p.Versions(), "partial", strings.Repeat("b", 64)+".part")
	foreign := filepath.Join(p.LinkDir, ".tmp-of-somebody")
	if err := os.MkdirAll(staging, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{kept, note, fast, foreign} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := i.Disable(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, path := range append(gone, filepath.Dir(staging), fast, kept, note, foreign) {
		if _, err := os.Lstat(path); err == nil {
			left = append(left, path)
		} else if !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if want := []string{kept, note, foreign}; !slices.Equal(left, want) {
		t.Errorf("left: %q; want %q", left, want)
	}
	err := filepath.WalkDir(p.DataDir, func(path string, _ fs.DirEntry, err error) error {
		if durable.IsTemp(filepath.Base(path)) {
			t.Errorf("left: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
