package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/internal/space"
)

// Restore replaces the database by the backup in dir, and checks and syncs the result. The agent must be stopped. The file keeps its mode
// and owner; if there is no file, it is made, only for the owner of its folder: a version that removed its database must not cost the agent
// its identity. The folder is never made.
//
// Check says whether the backup is the right one; Restore makes sure as well that it is complete and undamaged. The errors to decide on:
// *InvalidError and *InUseError, after which nothing of the backup is in the database, even if its user interferes, and *space.Error,
// because the room is looked at before anything is changed. A process that connects once the backup is in the database works on the
// restored database, and is not in its way.
//
// After a crash the database is the old one or the backup; see replace for the one moment when it may be neither. Restoring again is always
// possible and ends well. Once the copying has begun, ctx does not end it.
func (d *Database) Restore(ctx context.Context, dir string) (err error) {
	defer d.explained(&err)
	defer contain(&err)
	rec, err := d.metadata(dir)
	if err != nil {
		return err
	}
	copied, err := rec.checkFile(ctx, dir)
	if err != nil {
		return err
	}
	want, err := settled(ctx, copied, readSchema)
	if err != nil {
		return unusable(dir, err, "is damaged: %v", err)
	}
	t, err := d.place()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore the agent's database: %w", err)
		}
	}()
	if err := checkUnused(t.path, nil); err != nil {
		return err
	}
	if err := t.cleanTemp(); err != nil {
		return err
	}
	info, err := os.Lstat(copied)
	if err != nil {
		return err
	}
	if err := space.Check(filepath.Dir(t.path), info.Size()+spaceMargin, restoreFiles); err != nil {
		return err
	}
	inPlace, err := t.hasRoom(info.Size())
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	if inPlace {
		committed, err := t.overwrite(copied)
		_, inUse := errors.AsType[*InUseError](err)
		switch {
		case committed && err == nil:
			return t.verify(ctx, want)
		case committed, inUse, ctx.Err() != nil:
			return err
		}
		// The database cannot take the backup: it is damaged, or its pages have another size. Nothing of it is wanted, so a new file may come.
	}
	if err := t.replace(ctx, copied); err != nil {
		return explain(ctx, err, t.path, filepath.Dir(t.path))
	}
	return t.verify(ctx, want)
}

// CanRestore looks whether a restore is possible now: the backup is there, the folder can be written, nothing but a file of the agent's is
// in the database's place, nobody but the processes of except is connected to it or may write it, and there is room. It changes nothing. It
// does not look for damage of the backup, see CheckWhole. Errors are as for Restore.
func (d *Database) CanRestore(dir string, except []int) (err error) {
	defer d.explained(&err)
	defer contain(&err)
	copied, err := d.copied(dir)
	if err != nil {
		return err
	}
	info, err := os.Lstat(copied)
	if err != nil {
		return err
	}
	if err := unix.Access(filepath.Dir(d.at()), unix.W_OK); err != nil {
		return fmt.Errorf("write in %s: %w", d.folder.Path(), err)
	}
	t, err := d.place()
	if err != nil {
		return err
	}
	if err := checkUnused(d.at(), except); err != nil {
		return err
	}
	bytes, files, err := t.reserved()
	if err != nil {
		return err
	}
	return space.Check(filepath.Dir(t.path), info.Size()+spaceMargin-bytes, restoreFiles-files)
}

// restoredPerSecond is how much of a backup an ordinary disk checks, copies and syncs in a second, bytes.
const restoredPerSecond = 50 << 20

// RestoreTime returns how long Restore of the backup in dir usually takes, 0 if there is none.
func RestoreTime(dir string) time.Duration {
	info, err := os.Lstat(filepath.Join(dir, FileName))
	if err != nil {
		return 0
	}
	return time.Duration(info.Size()/restoredPerSecond) * time.Second
}
