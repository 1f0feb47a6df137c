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
func TestARunWithoutRoomIsSeenBeforeAChange(t *testing.T) {
	for name, tc := range map[string]struct {
		options string
		says    string // empty: nothing is refused
	}{
		"few inodes":         {"size=20m,nr_inodes=20", "32 files (inodes) needed, 19 files (inodes) free"},
		"enough inodes":      {"size=20m,nr_inodes=100", ""},
		"inodes not counted": {"size=20m,nr_inodes=0", ""},
		"little room":        {"size=16m,nr_inodes=100", "16.2 MiB needed"},
	} {
		dir := t.TempDir()
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, tc.options); err != nil {
			t.Skipf("no file system of our own: %v", err)
		}
		err := CheckRun(dir)
		_, refused := errors.AsType[*failure.RefusedError](err)
		if refused != (tc.says != "") || refused && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: it ends with %v", name, err)
		}
		if err := CheckRun(filepath.Join(dir, "missing")); err != nil {
			t.Errorf("%s: without systemd, it ends with %v", name, err)
		}
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}
}
