package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/internal/durable"
	"teleport-update/internal/space"
)

// A place is the destination of a restore.
type place struct {
	path string
	mode fs.FileMode
	uid  int
	gid  int
}

// place looks at the current database. If there is no database, the folder's owner gets the file.
func (d *Database) place() (place, error) {
	t := place{path: d.at(), mode: 0o600}
	info, err := lstatOwn(t.path)
	switch {
	case err == nil:
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

// open opens the existing database for writing. Exclusive locking keeps the WAL index in memory instead of in a file, and ends a
// transaction by synced zeros at the start of the journal, so that a journal whose removal was lost in a power cut has no force.
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
// transaction, and reports whether that was committed.
func (t place) overwrite(copied string) (committed bool, err error) {
	c, err := t.open()
	if err == nil {
		committed, err = t.overwriteOn(c, copied)
		err = errors.Join(err, c.Close())
	}
	switch {
	case committed && err == nil:
		return true, t.dropSidecars()
	case !committed && errors.Is(err, sqlite3.BUSY):
		return false, t.inUse()
	}
	return committed, err
}

func (t place) overwriteOn(c *sqlite3.Conn, copied string) (committed bool, err error) {
	// Exclusive locking keeps the lock from here on. A process that connected before, and is idle, may have no lock, and would go on with its
	// old pages of the database.
	if err := c.Exec("BEGIN EXCLUSIVE; COMMIT"); err != nil {
		return false, err
	}
	if err := checkUnused(t.path, nil); err != nil {
		return false, err
	}
	err = c.Restore("main", fileURI(copied, "immutable=1"))
	return err == nil, err
}

// dropSidecars removes leftovers of a restore beside the database. Once a process is connected, those files are that process's.
func (t place) dropSidecars() error {
	lock, err := t.keepOut()
	if _, inUse := errors.AsType[*InUseError](err); inUse {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	return dropFinished(t.path)
}

// keepOut locks everybody out of a database that nobody is connected to, until the lock is
// closed. Else it returns an *InUseError.
func (t place) keepOut() (io.Closer, error) {
	lock, err := lockExclusive(t.path)
	if errors.Is(err, errLocked) {
		return nil, t.inUse()
	}
	if err != nil {
		return nil, err
	}
	if err := checkUnused(t.path, nil); err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}

// replace puts a copy of the backup in the place of the database.
//
// Between the removal of the old sidecars and the naming of the copy, a crash leaves the old file without them. If they still had a
// meaning, they are folded into the file first, so that it is whole alone. If that fails, the file could not be read with them either, and
// nothing is lost. The other order, new file first, would let a crash put the old WAL or journal on the new file, whose pages SQLite would
// then take back without a word.
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
	if _, err := lstatOwn(t.path); !isNotExist(err) { // somebody may have made one meanwhile
		t.fold()
		lock, err := t.keepOut()
		if err != nil {
			os.Remove(temp.Name())
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

// fold makes the database whole without sidecars, if that is possible: a journal is rolled back, a WAL taken over.
func (t place) fold() {
	if c, err := t.open(); err == nil {
		// An error means that there is nothing to save, see replace.
		c.Exec("PRAGMA journal_mode=delete")
		c.Close()
	}
}

// verify makes sure that the database is sound, has the restored schema, and is on stable storage. Somebody may be connected to it, and
// write.
func (t place) verify(ctx context.Context, want schema) error {
	src := source{path: t.path}
	problems, err := query(ctx, src, quickCheckOn)
	if err != nil {
		return explain(ctx, err, t.path, filepath.Dir(t.path))
	}
	if problems != "" {
		return &CorruptError{Path: t.path, Detail: problems}
	}
	got, err := query(ctx, src, readSchema)
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

// cleanTemp removes copies that an interrupted restore left.
func (t place) cleanTemp() error {
	names, err := t.temporary(func(name string) bool { return durable.IsTemp(name) && !durable.IsSpare(name) })
	return errors.Join(err, removeAll(names))
}

// inUse names the processes that have the database open, after a lock has shown that there is one.
func (t place) inUse() error {
	if err := checkUnused(t.path, nil); err != nil {
		return err
	}
	return &InUseError{Path: t.path}
}
