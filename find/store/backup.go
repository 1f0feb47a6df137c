package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
)

// Backup copies the store in the file at path, which servers may have open and write
// to meanwhile, to another file. The copy is of one moment, checked, for its owner alone, and on
// stable storage before it has its name. It replaces a file with that name.
//
// Only the store's owner and root may use it. The copy is one file: it has no log. keep is
// as for Inspect.
func Backup(ctx context.Context, path, to string, keep func(key string) bool) (Facts, error) {
	facts, err := backup(ctx, path, to, keep)
	if err != nil {
		return Facts{}, fmt.Errorf("back up the store %s: %w", path, explain(err))
	}
	return facts, nil
}

func backup(ctx context.Context, path, to string, keep func(key string) bool) (facts Facts, err error) {
	if to, err = filepath.Abs(to); err != nil {
		return facts, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return facts, err
	}
	if err := checkOwner(filepath.Dir(path)); err != nil {
		return facts, err
	}
	if same, err := sameFile(path, to); same || err != nil {
		return facts, cmp.Or(err, errors.New("the backup would take its place: name another file"))
	}
	c, _, err := open(ctx, path, "os", false)
	if err != nil {
		return facts, err
	}
	defer c.Close()
	c.SetInterrupt(ctx)
	return writeBackup(ctx, to, keep, func(next string) error {
		f, err := os.OpenFile(next, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		return c.Backup("main", (&url.URL{Scheme: "file", Path: next}).String())
	})
}

// BackupOf is Backup of a store of another kind. The file holds the same items with the same revisions, and begins a new epoch.
func BackupOf(ctx context.Context, from Movable, to string, keep func(key string) bool) (Facts, error) {
	facts, err := writeBackup(ctx, to, keep, func(next string) error {
		file, err := OpenSQLite(ctx, next)
		if err != nil {
			return err
		}
		err = Copy(ctx, from, file)
		return cmp.Or(err, file.Close())
	})
	if err != nil {
		return Facts{}, fmt.Errorf("back up the store: %w", explain(err))
	}
	return facts, nil
}

// writeBackup lets write make a file with a store, checks the file, and gives it its name.
func writeBackup(ctx context.Context, to string, keep func(key string) bool, write func(next string) error) (facts Facts, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(to), ".backup-")
	if err != nil {
		return facts, err
	}
	defer os.RemoveAll(dir)
	next := filepath.Join(dir, "store.db")
	if err := write(next); err != nil {
		return facts, err
	}
	if err := withoutLog(next); err != nil {
		return facts, err
	}
	if facts, err = Inspect(ctx, next, keep); err != nil {
		return facts, err
	}
	if err := durable.SyncFile(next); err != nil {
		return facts, err
	}
	return facts, replace(next, to)
}

// replace renames a file that is on stable storage, onto another one.
func replace(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(to))
}

// withoutLog turns a copy into one complete file. Its generation is older than that of every file in use.
func withoutLog(path string) (err error) {
	c, err := sqlite3.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, c.Close()) }()
	return c.Exec("PRAGMA journal_mode = DELETE; UPDATE head SET generation = 0, settled = 0, seal = 1")
}

// sameFile reports whether two names belong to one file. The second need not exist.
func sameFile(a, b string) (bool, error) {
	one, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	other, err := os.Stat(b)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(one, other), err
}

// checkOwner returns an error unless the store's owner, or root, runs this process.
func checkOwner(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	if user := os.Geteuid(); user != 0 && user != owner {
		return fmt.Errorf("the folder %s belongs to the user with id %d, and this is run by %d: run it as root", dir, owner, user)
	}
	return nil
}

// Facts are the content of a file with a store.
type Facts struct {
	Revision Revision
	Count    int    // of all items
	Items    []Item // those that keep selected
	// History has the newest records, the newest first: as many as a Store keeps.
	History []HistoryEntry
}

// Inspect reads a file that Backup has made, or another copy of a store, and checks all of it. It
// changes nothing. keep selects the items to return; none if it is nil. A copy with a -wal or
// -journal file is an error: "sqlite3 FILE .backup" makes none.
func Inspect(ctx context.Context, file string, keep func(key string) bool) (Facts, error) {
	facts, err := inspect(ctx, file, keep)
	damaged, ok := errors.AsType[*damagedError](err)
	switch {
	case ok:
		err = fmt.Errorf("it is damaged (%s): take another one", damaged.detail)
	case errors.Is(err, sqlite3.CORRUPT):
		err = fmt.Errorf("it is damaged (%w): take another one", err)
	}
	if errors.Is(err, sqlite3.NOTADB) {
		err = errors.New("it is not an SQLite database")
	}
	if err != nil {
		return Facts{}, fmt.Errorf("the backup %s: %w", file, err)
	}
	return facts, nil
}

func inspect(ctx context.Context, file string, keep func(key string) bool) (facts Facts, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return facts, err
	}
	if !info.Mode().IsRegular() || info.Size() == 0 {
		return facts, errors.New("it is no file with a store in it")
	}
	if log, err := os.Stat(file + "-wal"); err == nil && log.Size() > 0 {
		return facts, errors.New("it has a -wal beside it, with changes that are not in it: it is a store in use, or a copy of one file of two")
	}
	file, err = filepath.Abs(file)
	if err != nil {
		return facts, err
	}
	// Immutable: SQLite makes no lock or log beside it.
	address := url.URL{Scheme: "file", Path: file, RawQuery: url.Values{"immutable": {"1"}}.Encode()}
	c, err := sqlite3.OpenFlags(address.String(), sqlite3.OPEN_READONLY|sqlite3.OPEN_URI)
	if err != nil {
		return facts, err
	}
	defer c.Close()
	c.SetInterrupt(ctx)
	id, err := number(c, "PRAGMA application_id")
	if err != nil {
		return facts, err
	}
	if id != applicationID {
		return facts, errors.New("it is an SQLite database of another program")
	}
	if _, _, err := recognise(c); err != nil {
		return facts, err
	}
	if err := check(c); err != nil {
		return facts, err
	}
	return facts, facts.read(c, keep)
}

// read reads a store that nobody changes meanwhile.
func (f *Facts) read(c *sqlite3.Conn, keep func(key string) bool) (err error) {
	if f.Revision, err = revision(c); err != nil {
		return err
	}
	err = scan(c, "", func(item Item) bool {
		f.Count++
		if keep != nil && keep(item.Key) {
			f.Items = append(f.Items, item)
		}
		return true
	})
	if err != nil {
		return err
	}
	v, err := number(c, "PRAGMA user_version")
	if err != nil || v < schemaVersion {
		return err // the first schema has no history
	}
	f.History, err = history(c, MaxHistory)
	return err
}

// sidecars are the suffixes of the files beside a store's file while a process has it open.
var sidecars = []string{"-wal", "-shm"}

// isBusy reports whether an error means that others have the store open.
func isBusy(err error) bool {
	return errors.Is(err, sqlite3.BUSY) || errors.Is(err, unix.EBUSY)
}
