package powercut

import (
	"os"
	"path/filepath"
	"testing"
)

// Require ends a test where power cannot be cut: err says why, or is nil. The test
// is skipped, loudly; where CI=true is set it fails.
func Require(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("power cuts are required (CI=true): %v", err)
	default:
		t.Skipf("SKIPPED, nothing was tested: %v", err)
	}
}

// New makes and mounts an empty ext4 for a test, and unmounts it at its end.
// namespace is what OwnMounts returned.
func New(t testing.TB, namespace error) *Disk {
	t.Helper()
	if namespace == nil {
		namespace = Available(Ext4)
	}
	Require(t, namespace)
	image := filepath.Join(t.TempDir(), "image")
	if err := Format(image, Ext4); err != nil {
		t.Fatal(err)
	}
	d, err := Mount(image, Ext4, filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return d
}
