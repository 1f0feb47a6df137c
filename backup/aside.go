package backup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
)

// SetAside copies a database that cannot be backed up, with the files beside it, to another name in its own folder, as it is: another
// database is about to replace it, and somebody may still get something out of this one. It returns the path of the copy. The agent must be
// stopped.
func (d *Database) SetAside(ctx context.Context, now time.Time) (to string, err error) {
	defer d.explained(&err)
	src, err := d.source()
	if err != nil {
		return "", err
	}
	if err := checkUnused(src.path, nil); err != nil {
		return "", err
	}
	uid, gid, err := d.folder.Owner()
	if err != nil {
		return "", err
	}
	size, err := d.Size()
	if err != nil {
		return "", err
	}
	if err := checkSpace(filepath.Dir(src.path), size); err != nil {
		return "", err
	}
	to = src.path + ".damaged-" + now.UTC().Format("20060102T150405Z")
	for _, suffix := range append([]string{""}, sidecars[:]...) {
		if err := setAside(ctx, src.path+suffix, to+suffix, uid, gid); err != nil && !isNotExist(err) {
			return "", fmt.Errorf("keep %s aside: %w", src.path+suffix, err)
		}
	}
	return d.folder.Explain(to), durable.SyncDir(filepath.Dir(to))
}

// MoveAside gives the database, with the files beside it, another name in its own folder: its version is gone, and the next version makes a
// new database. It returns the new path, after passing it to note. The agent must be stopped.
func (d *Database) MoveAside(why string, now time.Time, note func(to string) error) (to string, err error) {
	defer d.explained(&err)
	if _, err := d.source(); err != nil {
		return "", err
	}
	if err := checkUnused(d.at(), nil); err != nil {
		return "", err
	}
	to = d.at() + "." + why + "-" + now.UTC().Format("20060102T150405Z")
	named := d.folder.Explain(to)
	if err := note(named); err != nil {
		return "", err
	}
	return named, moveAll(d.at(), to)
}

// PutBack makes a copy of SetAside the database again; name is the last element of its path. The database in its place goes. PutBack can be
// repeated. The agent must be stopped.
func (d *Database) PutBack(name string) (err error) {
	defer d.explained(&err)
	if err := checkUnused(d.at(), nil); err != nil {
		return err
	}
	kept := d.folder.At(name)
	if _, err := lstatOwn(kept); err == nil {
		for _, suffix := range sidecars {
			if err := durable.UnlinkNoSync(d.at() + suffix); err != nil {
				return err
			}
		}
		if err := durable.SyncDir(filepath.Dir(d.at())); err != nil {
			return err
		}
	}
	return moveAll(kept, d.at())
}

// moveAll renames a database, and then the files beside it.
func moveAll(from, to string) error {
	for _, suffix := range append([]string{""}, sidecars[:]...) {
		if _, err := lstatOwn(from + suffix); isNotExist(err) {
			continue
		}
		if err := durable.Replace(from+suffix, to+suffix); err != nil {
			return err
		}
	}
	return nil
}

// setAside replaces the leftovers of an interrupted attempt. The copy belongs to the folder's owner.
func setAside(ctx context.Context, from, to string, uid, gid int) error {
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
	return place{mode: info.Mode().Perm(), uid: uid, gid: gid}.fill(ctx, f, from)
}

// Outdate makes the backup in dir incomplete, durably, because its version runs on since it was restored, or ran on and is left without a
// new backup: a restore would take back rows without a word. The database stays for a person to look at.
func Outdate(dir string) error {
	meta := filepath.Join(dir, metaName)
	if _, err := os.Lstat(meta); isNotExist(err) {
		return nil
	}
	return durable.Remove(meta)
}
