package walks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// mountData gives a walk's data a file system of their own, which can be full, be read
// only, or be away.
func (h *machine) mountData() (unmount func() error, err error) {
	if err := unix.Mount("data", h.data(), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return nil, fmt.Errorf("mount the data: %w", err)
	}
	return func() error { return unix.Unmount(h.data(), unix.MNT_DETACH) }, nil
}

// withTheData does something to the file system that holds the data.
func withTheData() []action {
	return []action{
		{name: "the data are read-only", blames: true, do: func(w *walk) (func() error, error) {
			remount := func(flags uintptr) error {
				return unix.Mount("", w.data(), "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV|flags, "")
			}
			return func() error { return remount(0) }, remount(unix.MS_RDONLY)
		}},
		{name: "the data's file system is full", blames: true, do: func(w *walk) (func() error, error) {
			resize := func(blocks uint64) error {
				return unix.Mount("", w.data(), "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("nr_blocks=%d", blocks))
			}
			var now, small unix.Statfs_t
			if err := unix.Statfs(w.data(), &now); err != nil {
				return nil, err
			}
			small = now
			return func() error { return resize(now.Blocks) }, resize(max(small.Blocks-small.Bfree, 1))
		}},
		{name: "the data are not mounted", with: reads, closed: true, do: func(w *walk) (func() error, error) {
			away := w.elsewhere("data")
			if err := os.MkdirAll(away, 0o755); err != nil {
				return nil, err
			}
			return func() error {
				entries, err := filepath.Glob(filepath.Join(w.data(), "*"))
				for _, path := range entries {
					err = errors.Join(err, os.RemoveAll(path))
				}
				return errors.Join(err, unix.Mount(away, w.data(), "", unix.MS_MOVE, ""))
			}, unix.Mount(w.data(), away, "", unix.MS_MOVE, "")
		}},
	}
}

// owner is the user whom a path belongs to, -1 where there is none.
func owner(path string) int {
	info, err := os.Lstat(path)
	if err != nil {
		return -1
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}
