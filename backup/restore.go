package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
	"teleport-update/internal/space"
)

// Restore makes the database what it was when the backup in dir was taken, and
// checks and syncs the result. The agent must be stopped. The file keeps its
// mode and owner; where there is none, it is made, for the owner of its folder
// only: a version that removed its database must not cost the agent its identity.
// The folder is never made.
//
// Whether the backup is the right one is for Check to say; that it is complete
// and undamaged is made sure of here as well. The errors to decide on:
// *InvalidError and *InUseError, after which the database is what it was, and
// *space.Error, for which the room is looked at before anything is changed.
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
		err := t.overwrite(copied)
		if err == nil {
			err = t.verify(ctx, want)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		if errors.Is(err, sqlite3.BUSY) {
			return t.inUse()
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

// A place is where a database is restored to.
type place struct {
	path   string
	exists bool
	mode   fs.FileMode
	uid    int
	gid    int
}

// place looks at what is there to be restored to. Where there is nothing, the
// folder's owner gets the file.
func (d *Database) place() (place, error) {
	t := place{path: d.at(), mode: 0o600}
	info, err := lstatOwn(t.path)
	switch {
	case err == nil:
		t.exists = true
		owner := info.Sys().(*syscall.Stat_t)
		t.mode, t.uid, t.gid = info.Mode().Perm(), int(owner.Uid), int(owner.Gid)
	case isNotExist(err):
		t.uid, t.gid, err = d.folder.Owner()
	}
	if err != nil {
		return place{}, err
	}
	for _, suffix := range sidecars {
		if _, err := lstatOwn(t.path + suffix); err != nil && !isNotExist(err) {
			return place{}, err
		}
	}
	return t, nil
}

// hasRoom reports whether there is a database to overwrite, and room for the
// transaction that does so: a WAL with the new pages or a journal with the old
// ones, each with a little around every page, and the growth of the file.
func (t place) hasRoom(size int64) (bool, error) {
	c, err := source{path: t.path}.look()
	if _, corrupt := errors.AsType[*CorruptError](err); corrupt || errors.Is(err, ErrNoDatabase) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	free, err := space.At(filepath.Dir(t.path))
	if err != nil {
		return false, err
	}
	log := c.size
	if c.wal {
		log = size
	}
	return free.Bytes >= log+log/16+max(0, size-c.size)+spaceMargin, nil
}

// open opens the database that is there for writing. Exclusive locking keeps
// the WAL index in memory instead of in a file, and ends a transaction by
// synced zeros at the start of the journal, so that a journal whose removal was
// lost in a power cut has no force.
func (t place) open() (*sqlite3.Conn, error) {
	return connect(context.Background(), t.path, sqlite3.OPEN_READWRITE, url.Values{
		"_pragma": {
			"locking_mode(exclusive)",
			"synchronous(extra)",
			// Each time the cache is full, the journal is synced.
			"cache_size(-8000)",
		},
	}.Encode())
}

// overwrite writes the pages of the backup over those of the database, in one
// transaction.
func (t place) overwrite(copied string) error {
	c, err := t.open()
	if err != nil {
		return err
	}
	err = c.Restore("main", fileURI(copied, "immutable=1"))
	if err = cmp.Or(err, c.Close()); err != nil {
		return err
	}
	return dropFinished(t.path)
}

// replace puts a copy of the backup in the place of what is there.
//
// Between taking the old sidecars away and giving the copy its name, a crash
// leaves the old file without them. Where they still had a meaning, they are
// folded into the file first, so that it is whole alone. Where that fails, the
// file could not be read with them either, and nothing is lost. The other
// order, new file first, would let a crash put the old WAL or journal on the
// new file, whose pages SQLite would then take back without a word.
func (t place) replace(ctx context.Context, copied string) error {
	temp, err := durable.CreateTemp(t.path)
	if err != nil {
		return err
	}
	defer temp.Close()
	if err := t.fill(ctx, temp, copied); err != nil {
		os.Remove(temp.Name())
		return err
	}
	if t.exists {
		t.fold()
		lock, err := lockExclusive(t.path)
		if err != nil {
			os.Remove(temp.Name())
			if errors.Is(err, errLocked) {
				return t.inUse()
			}
			return err
		}
		defer lock.Close()
	}
	for _, suffix := range sidecars {
		if err := durable.UnlinkNoSync(t.path + suffix); err != nil {
			return err
		}
	}
	if err := durable.SyncDir(filepath.Dir(t.path)); err != nil {
		return err
	}
	return durable.Replace(temp.Name(), t.path)
}

// fill copies a file, durably, with the mode and owner of the place.
func (t place) fill(ctx context.Context, temp *os.File, copied string) error {
	src, info, err := openCopied(copied)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := copyOpened(ctx, src, info, temp, nil); err != nil {
		return err
	}
	if err := temp.Chown(t.uid, t.gid); err != nil {
		return err
	}
	if err := temp.Chmod(t.mode); err != nil {
		return err
	}
	return temp.Sync()
}

// fold makes the database whole without sidecars, where that is possible:
// a journal is rolled back, a WAL taken over.
func (t place) fold() {
	if c, err := t.open(); err == nil {
		// An error means that there is nothing to save, see replace.
		c.Exec("PRAGMA journal_mode=delete")
		c.Close()
	}
}

// verify makes sure that the database is sound, is the one that was restored,
// and is on stable storage.
func (t place) verify(ctx context.Context, want schema) error {
	src := source{path: t.path}
	c, err := src.look()
	if err != nil {
		return err
	}
	if c.unsettled() {
		return ErrUnsettled
	}
	problems, err := settled(ctx, t.path, quickCheckOn)
	if err != nil {
		return explain(ctx, err, t.path, filepath.Dir(t.path))
	}
	if problems != "" {
		return &CorruptError{Path: t.path, Detail: problems}
	}
	got, err := settled(ctx, t.path, readSchema)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%s does not have the schema of its backup", t.path)
	}
	if err := durable.SyncFile(t.path); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(t.path))
}

// cleanTemp removes copies that an interrupted restore left. The folder is the
// agent's, so only names that no one else gives are taken.
func (t place) cleanTemp() error {
	dir := filepath.Dir(t.path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if durable.IsTemp(e.Name()) && strings.Contains(e.Name(), filepath.Base(t.path)) {
			if err := durable.UnlinkNoSync(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// inUse names who has the database open, after a lock has shown that somebody
// has.
func (t place) inUse() error {
	if err := checkUnused(t.path, nil); err != nil {
		return err
	}
	return &InUseError{Path: t.path}
}
