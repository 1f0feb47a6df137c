package transaction

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/internal/failure"
)

// A file system may have room for bytes and none for a file.
func TestARunWithoutInodesIsSeenBeforeAChange(t *testing.T) {
	for name, tc := range map[string]struct {
		options string
		refused bool
	}{
		"few inodes":         {"size=8m,nr_inodes=20", true},
		"enough inodes":      {"size=8m,nr_inodes=100", false},
		"inodes not counted": {"size=8m,nr_inodes=0", false},
	} {
		dir := t.TempDir()
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, tc.options); err != nil {
			t.Skipf("no file system of our own: %v", err)
		}
		if err := CheckRun(dir); err != nil {
			t.Errorf("%s: there is no room: %v", name, err)
		}
		err := CheckRunFiles(dir)
		_, refused := errors.AsType[*failure.RefusedError](err)
		if refused != tc.refused || refused && !strings.Contains(err.Error(), "32 files (inodes) needed, 19 files (inodes) free") {
			t.Errorf("%s: it ends with %v", name, err)
		}
		if err := CheckRunFiles(filepath.Join(dir, "missing")); err != nil {
			t.Errorf("%s: without systemd, it ends with %v", name, err)
		}
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}
}
