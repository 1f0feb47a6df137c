package host

import (
	"os"
	"path/filepath"
	"slices"
	"teleport-update/installer/state"
	"testing"
)

func TestEnablementComesBackAsItWas(t *testing.T) {
	config := t.TempDir()
	units := config
	unit, packaged := filepath.Join(units, "teleport.service"), filepath.Join(units, "packaged.service")
	for _, file := range []string{unit, packaged} {
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	u := &Host{Paths: state.Paths{UnitDir: config}}
	link := func(target, dir string) string {
		t.Helper()
		path := filepath.Join(config, dir, "teleport.service")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if links, err := u.EnabledBy(); err != nil || len(links) != 0 {
		t.Fatalf("nothing enables the unit, but EnabledBy says %v, %v", links, err)
	}
	removed, leftDangling, kept := link(unit, "multi-user.target.wants"), link(packaged, "custom.target.wants"), link(unit, "other.target.requires")
	links, err := u.EnabledBy()
	if err != nil || len(links) != 3 {
		t.Fatalf("EnabledBy: %v, %v", links, err)
	}
	if gone := Dangling(links); len(gone) != 0 {
		t.Errorf("all is in place, but %v is said to be gone", gone)
	}

	// What the removal of a package does.
	for _, path := range []string{removed, filepath.Dir(removed), packaged} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	gone := Dangling(links)
	if want := []string{leftDangling, removed}; !slices.Equal(slices.Sorted(slices.Values(gone)), want) {
		t.Errorf("gone are %v; want %v", gone, want)
	}
	if err := u.Reenable(gone); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{removed, leftDangling, kept} {
		if target, err := os.Readlink(path); err != nil || target != unit {
			t.Errorf("%s leads to %q, %v; want %s", path, target, err, unit)
		}
	}
}
