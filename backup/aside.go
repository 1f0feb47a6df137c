package backup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
)

// SetAside copies a database that cannot be backed up, with what lies beside it,
// to another name in its own folder, as it is: another one is about to take its
// place, and somebody may still get something out of this one. It returns the
// path of the copy. The agent must be stopped.
func SetAside(ctx context.Context, path string, now time.Time) (to string, err error) {
	src, err := findSource(path)
	if err != nil {
		return "", err
	}
	if err := checkUnused(src.path); err != nil {
		return "", err
	}
	size, err := Size(src.path)
	if err != nil {
		return "", err
	}
	if err := checkSpace(filepath.Dir(src.path), size); err != nil {
		return "", err
	}
	to = src.path + ".damaged-" + now.UTC().Format("20060102T150405Z")
	for _, suffix := range append([]string{""}, sidecars[:]...) {
		if err := setAside(ctx, src.path+suffix, to+suffix); err != nil && !isNotExist(err) {
			return "", fmt.Errorf("keep %s aside: %w", src.path+suffix, err)
		}
	}
	return to, durable.SyncDir(filepath.Dir(to))
}

// setAside replaces what an interrupted attempt may have left.
func setAside(ctx context.Context, from, to string) error {
	info, err := lstatOwn(from)
	if err != nil {
		return err
	}
	if err := durable.UnlinkNoSync(to); err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	owner := info.Sys().(*syscall.Stat_t)
	return target{mode: info.Mode().Perm(), uid: int(owner.Uid), gid: int(owner.Gid)}.fill(ctx, f, from)
}

// Outdate makes the backup in dir one that is not complete, durably, because the
// version that it belongs to ran on and is left without a new one: restored, it
// would take back rows without a word. The database stays for a person to look
// at.
func Outdate(dir string) error {
	meta := filepath.Join(dir, metaName)
	if _, err := os.Lstat(meta); isNotExist(err) {
		return nil
	}
	return durable.Remove(meta)
}
