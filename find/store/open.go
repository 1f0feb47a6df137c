package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
)

const (
	// busyTimeout bounds the wait for the change of another process. A change takes some
	// milliseconds.
	busyTimeout = 5 * time.Second

	// applicationID, "tpfs", distinguishes our files from all others of SQLite.
	applicationID = 0x74706673
	// schemaVersion is the version of the schema after upgrade.
	schemaVersion = 2
)

// create makes the tables of schema 1. head holds the revision of the store in its
// one row.
const create = `
CREATE TABLE resources (
	key      TEXT    NOT NULL PRIMARY KEY,
	value    BLOB    NOT NULL,
	revision INTEGER NOT NULL UNIQUE
) STRICT, WITHOUT ROWID;
CREATE TABLE head (
	only     INTEGER NOT NULL PRIMARY KEY CHECK (only = 1),
	revision INTEGER NOT NULL
) STRICT;
INSERT INTO head VALUES (1, 0);
`

// upgrade makes schema 2 of schema 1: items that expire, in seconds since 1970,
// the history of changes, and generations.
const upgrade = `
ALTER TABLE resources ADD COLUMN expires INTEGER;
CREATE INDEX expiring ON resources (expires) WHERE expires IS NOT NULL;
CREATE TABLE history (
	number        INTEGER PRIMARY KEY,
	time          TEXT    NOT NULL,
	who           TEXT    NOT NULL,
	what          TEXT    NOT NULL,
	why           TEXT    NOT NULL,
	key           TEXT    NOT NULL,
	from_revision INTEGER NOT NULL,
	to_revision   INTEGER NOT NULL
) STRICT;
ALTER TABLE head ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE head ADD COLUMN settled INTEGER NOT NULL DEFAULT 0;
ALTER TABLE head ADD COLUMN seal INTEGER NOT NULL DEFAULT 0;
`

// OpenSQLite opens the store in the file at path, and makes a missing one.
//
// The file lies in a folder that only its owner, the user of this process, may
// enter: a missing folder is made so, and one that is open to others
// is refused. A file that is no store, is damaged, or was written by a newer version
// of this program is an error and stays as it is. A large file is checked for damage
// while it is in use: once the check has found damage, each operation is an error.
func OpenSQLite(ctx context.Context, path string) (*SQLite, error) {
	return openSQLite(ctx, path, "os")
}

// openSQLite opens the store through SQLite's file system of that name.
func openSQLite(ctx context.Context, path, vfs string) (*SQLite, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := makeFolder(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("open the store %s: %w", path, err)
	}
	conn, file, err := open(ctx, path, vfs, true)
	if err != nil {
		return nil, err
	}
	s := &SQLite{path: path, vfs: vfs, conn: conn, file: file}
	s.whole = s.whole.follow(file, path, vfs)
	s.keepReserve()
	return s, nil
}

// makeFolder makes the folder if it is missing, and otherwise returns an error if it is not
// suitable.
func makeFolder(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := durable.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			return err
		}
		if err := durable.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		info, err = os.Stat(dir)
	}
	if err != nil {
		return err
	}
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", dir)
	case int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid():
		return fmt.Errorf("the folder %s belongs to the user with id %d, and this is run by %d", dir, info.Sys().(*syscall.Stat_t).Uid,
			os.Geteuid())
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("others can enter the folder %s (its mode is %04o): give the store a folder of its own, with mode 0700", dir,
			info.Mode().Perm())
	}
	return nil
}

func open(ctx context.Context, path, vfs string, mayCreate bool) (conn *sqlite3.Conn, file os.FileInfo, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open the store %s: %w", path, explain(err))
		}
	}()
	if file, err = openFile(path, mayCreate); err != nil {
		return nil, nil, err
	}
	// The log is as open to others as the file: not at all.
	address := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"modeof": {path}, "vfs": {vfs}}.Encode()}
	c, err := sqlite3.OpenFlags(address.String(), sqlite3.OPEN_READWRITE|sqlite3.OPEN_URI|sqlite3.OPEN_NOFOLLOW)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	c.SetInterrupt(ctx)
	defer c.SetInterrupt(context.Background())
	if err := c.BusyTimeout(busyTimeout); err != nil {
		return nil, nil, err
	}
	// A file that is not ours or is damaged stays as it is, its log too.
	if _, err := c.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true); err != nil {
		return nil, nil, err
	}
	if err := patiently(func() (err error) {
		tx := c.Begin() // another process may be making it
		defer tx.End(&err)
		_, _, err = recognise(c)
		return err
	}); err != nil {
		return nil, nil, err
	}
	if err := checkLog(c, path, vfs); err != nil {
		return nil, nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, nil, err
	}
	if err := patiently(func() error { return c.Exec("PRAGMA journal_mode = WAL") }); err != nil {
		return nil, nil, err
	}
	if err := c.Exec("PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF"); err != nil {
		return nil, nil, err
	}
	if err := patiently(func() error { return initialise(c) }); err != nil {
		return nil, nil, err
	}
	look := check
	if file.Size() > checkAtOnce {
		look = func(c *sqlite3.Conn) error { _, err := revision(c); return err }
	}
	if err := look(c); err != nil {
		return nil, nil, err
	}
	if err := begin(c); err != nil {
		return nil, nil, err
	}
	if _, err := c.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, false); err != nil {
		return nil, nil, err
	}
	// The driver syncs the log's content, but not the folder with its name.
	if err := durable.SyncDir(filepath.Dir(path)); err != nil {
		return nil, nil, err
	}
	return c, file, nil
}

// openFile makes an empty file for its owner alone, or looks at the present one.
func openFile(path string, mayCreate bool) (os.FileInfo, error) {
	flags := os.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK
	if mayCreate {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, unix.ELOOP) {
		return nil, errors.New("it is a symbolic link, and the files beside it would be looked for beside the link")
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	if info.Size() == 0 {
		// An empty file in the place of an earlier store is the beginning of a copy, or the leftovers of a
		// copy without space.
		if !mayCreate {
			return nil, errors.New("the file is empty, and held a store before: stop the server, and restore a copy or start with an empty one")
		}
		// SQLite would take it for a new database, and throw the log away.
		if log, err := os.Stat(path + "-wal"); err == nil && log.Size() > 0 {
			return nil, &damagedError{"the file is empty, but its -wal is not"}
		}
	}
	return info, nil
}

// recognise refuses files of other programs, and of newer versions of this one, before anything is
// written to them. It runs in a transaction, and returns the file's application id and its schema: 0, 0 for an empty file.
func recognise(c *sqlite3.Conn) (id, v int64, err error) {
	if id, err = number(c, "PRAGMA application_id"); err != nil {
		return 0, 0, err
	}
	if v, err = number(c, "PRAGMA user_version"); err != nil {
		return 0, 0, err
	}
	objects, err := number(c, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return 0, 0, err
	}
	switch {
	case id == 0 && v == 0 && objects == 0: // a new one
		return 0, 0, nil
	case id != applicationID:
		return 0, 0, errors.New("it is an SQLite database of another program")
	case v > schemaVersion:
		return 0, 0, fmt.Errorf("it was written by a newer version of this program (its schema is %d, and this one knows %d): upgrade "+
			"this one, or restore a store from before", v, schemaVersion)
	case v < 1:
		return 0, 0, fmt.Errorf("its schema is %d, which no version of this program has written", v)
	}
	return id, v, nil
}

// initialise makes the tables in an empty file, and the missing ones in a store of an older
// version. If several processes do this at once, one makes them.
func initialise(c *sqlite3.Conn) (err error) {
	tx, err := c.BeginImmediate()
	if err != nil {
		return err
	}
	defer tx.End(&err)
	id, v, err := recognise(c)
	if err != nil {
		return err
	}
	if v == schemaVersion {
		return accompany(c)
	}
	statements := upgrade
	if id == applicationID {
		// A damaged store stays as it is.
		if err := check(c); err != nil {
			return err
		}
	} else {
		statements = create + upgrade
	}
	if err := c.Exec(statements + fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID,
		schemaVersion)); err != nil {
		return err
	}
	return accompany(c)
}

// check reads the whole store.
func check(c *sqlite3.Conn) error {
	problem := ""
	err := query(c, "PRAGMA quick_check(1)", nil, func(stmt *sqlite3.Stmt) bool {
		problem = stmt.ColumnText(0)
		return false
	})
	if err == nil && problem != "ok" {
		err = &damagedError{problem}
	}
	if err != nil {
		return err
	}
	_, err = revision(c)
	return err
}

type damagedError struct{ detail string }

func (e *damagedError) Error() string {
	return "it is damaged (" + e.detail + "): stop the server, put it aside with the -wal and -shm beside it, and restore a " +
		"copy or start with an empty one"
}

// explain replaces SQLite's errors by ours if a person can do something.
func explain(err error) error {
	switch {
	case errors.Is(err, sqlite3.NOTADB):
		return errors.New("it is not an SQLite database: put it aside, and restore a copy or start with an empty one")
	case errors.Is(err, sqlite3.CORRUPT):
		return &damagedError{err.Error()}
	case errors.Is(err, sqlite3.BUSY):
		return fmt.Errorf("another process has kept it locked for %s: %w", busyTimeout, err)
	case errors.Is(err, sqlite3.FULL):
		return fmt.Errorf("the disk is full, and it is as it was: make room (it goes on by itself then): %w", err)
	}
	return err
}

// patiently repeats an operation that SQLite gives up at once if another process is doing the
// same: SQLite's own wait would not help if both held a lock.
func patiently(f func() error) error {
	for limit := time.Now().Add(busyTimeout); ; time.Sleep(5 * time.Millisecond) {
		if err := f(); !errors.Is(err, sqlite3.BUSY) || time.Now().After(limit) {
			return err
		}
	}
}

func number(c *sqlite3.Conn, sql string) (n int64, err error) {
	err = query(c, sql, nil, func(stmt *sqlite3.Stmt) bool {
		n = stmt.ColumnInt64(0)
		return false
	})
	return n, err
}
