package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Restore makes the database what it was when the backup in dir was taken, and
// checks and syncs the result. The agent must be stopped. The file keeps its
// mode and owner; where there is none, it is made, for the owner of its folder
// only: a version that removed its database must not cost the agent its identity.
// The folder is never made.
//
// Whether the backup is the right one is for Check to say; that it is complete
// and undamaged is made sure of here as well. The errors to decide on:
// *InvalidError and *InUseError, after which nothing of the backup is in the
// database, whatever its user did to it, and *space.Error, for which the room is
// looked at before anything is changed. Who connects once the backup is in the
// database works on what was restored, and is not in its way.
//
// After a crash the database is what it was or what the backup holds; see
// replace for the one moment when it may be neither. Restoring again is always
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
	if err := checkSpace(filepath.Dir(t.path), info.Size()); err != nil {
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
		// What is there cannot take the backup: it is damaged, or its pages
		// have another size. Nothing of it is wanted, so a new file may come.
	}
	if err := t.replace(ctx, copied); err != nil {
		return explain(ctx, err, t.path, filepath.Dir(t.path))
	}
	return t.verify(ctx, want)
}

// CanRestore looks whether a restore is possible now: the backup is there, the folder
// can be written, nothing but a file of the agent's is in the database's place, nobody but
// the processes of except is connected to it or may write it, and there is room. It costs no more than that, and changes nothing; that the
// backup is undamaged is for CheckWhole to say. Errors are those of Restore.
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
	if _, err := d.place(); err != nil {
		return err
	}
	if err := checkUnused(d.at(), except); err != nil {
		return err
	}
	return checkSpace(filepath.Dir(d.at()), info.Size())
}
