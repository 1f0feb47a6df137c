//go:build hosts

package host

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What is mounted in a root that was never finished is the machine's own.
func TestAHalfMadeRootIsRemovedWithoutWhatIsMountedInIt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	outside, root := t.TempDir(), filepath.Join(t.TempDir(), ".making")
	kept := filepath.Join(outside, "inner", "kept")
	inside := filepath.Join(root, "dev")
	for _, dir := range []string{filepath.Dir(kept), inside} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(kept, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{inside, filepath.Join(inside, "inner")} {
		if err := unix.Mount(outside, at, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
	}
	if err := removeHalfMade(root); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(root); err == nil {
		t.Error("the root is still there")
	}
}
