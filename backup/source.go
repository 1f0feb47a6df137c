package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// magic opens every SQLite database that is not empty.
const magic = "SQLite format 3\x00"

// A source is a database at rest or at work. Its path leads through an open folder, or is absolute, root's, and free of links: only the
// last element can be a link, and that is never followed.
type source struct {
	path   string
	info   fs.FileInfo
	copied bool // it is the database of a backup
}

// realDir returns an absolute folder, which is root's, with links resolved.
func realDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// condition is the state of a database's files at one moment.
type condition struct {
	size    int64 // of the database file, bytes
	walSize int64
	wal     bool // SQLite would open it in WAL mode
	index   bool // both the WAL and its index are there
	journal bool // a rollback journal that is not finished
}

// look reads the condition. It returns a *CorruptError for a file that cannot be a database, and an error for files of a wrong kind.
func (s source) look() (condition, error) {
	var c condition
	open := openOwn
	if s.copied {
		open = openCopied
	}
	f, info, err := open(s.path)
	if isNotExist(err) {
		return c, ErrNoDatabase
	}
	if err != nil {
		return c, err
	}
	defer f.Close()
	c.size = info.Size()

	if c.journal, err = unfinished(s.path + "-journal"); err != nil {
		return c, err
	}
	wal, err := lstatOwn(s.path + "-wal")
	if err == nil {
		c.wal, c.walSize = true, wal.Size()
	} else if !isNotExist(err) {
		return c, err
	}
	if _, err = lstatOwn(s.path + "-shm"); err != nil && !isNotExist(err) {
		return c, err
	}
	c.index = c.wal && err == nil

	if c.size == 0 {
		if c.walSize > 0 {
			// SQLite would throw the WAL away as soon as it looked.
			return c, &CorruptError{Path: s.path, Detail: "the file is empty, but its -wal is not"}
		}
		return c, nil
	}
	header := make([]byte, 20)
	if _, err := f.ReadAt(header, 0); err != nil && err != io.EOF {
		return c, fmt.Errorf("read %s: %w", s.path, err)
	}
	if string(header[:len(magic)]) != magic {
		return c, &CorruptError{Path: s.path, Detail: "it has no header of an SQLite database"}
	}
	c.wal = c.wal || header[19] == 2
	return c, nil
}

// unattended reports whether it looks as if nobody has the database open and a read-only connection cannot read it, or not without making
// files beside it.
func (c condition) unattended() bool {
	return c.journal || c.size == 0 || c.wal && !c.index
}

// unsettled reports whether the database file alone is not the database.
func (c condition) unsettled() bool {
	return c.journal || c.walSize > 0
}

// errAgain says that the database changed hands while it was looked at.
var errAgain = errors.New("the owner of the database changed while it was opened")

// read calls the one function that can read the database as it lies there: online, which uses a read-only connection and its locks, or
// atRest, which runs while an exclusive lock keeps everybody else out. Neither makes a file in the agent's folder.
func (s source) read(ctx context.Context, online func() error, atRest func(condition) error) error {
	limit := time.Now().Add(busyTimeout)
	for {
		err := s.readNow(online, atRest)
		if !errors.Is(err, errAgain) && !errors.Is(err, sqlite3.READONLY_ROLLBACK) {
			return err
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%s could not be read for %s: %w", s.path, busyTimeout, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s source) readNow(online func() error, atRest func(condition) error) error {
	c, err := s.look()
	if err != nil {
		return err
	}
	if c.unattended() {
		lock, err := lockExclusive(s.path)
		if err == nil {
			defer lock.Close()
			if c, err = s.look(); err != nil {
				return err
			}
			if !c.unattended() {
				return errAgain
			}
			return atRest(c)
		}
		if !errors.Is(err, errLocked) {
			return err
		}
		// Somebody is there: a journal is theirs, a missing WAL about to come.
		if !c.journal {
			return errAgain
		}
	}
	if !c.wal {
		return online()
	}
	// The last connection to close takes the WAL and its index along, and a read-only connection would make new ones and leave them. The lock
	// keeps the last connection from taking them.
	lock, err := lockShared(s.path)
	if errors.Is(err, errLocked) {
		return errAgain
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	if c, err = s.look(); err != nil {
		return err
	}
	if c.wal && !c.index {
		return errAgain
	}
	return online()
}

// unfinished reports whether a rollback journal is in force. A finished one is empty or begins with zeros, depending on the journal mode.
func unfinished(journal string) (bool, error) {
	f, _, err := openOwn(journal)
	if isNotExist(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	var first [1]byte
	n, err := f.ReadAt(first[:], 0)
	if err != nil && err != io.EOF {
		return false, fmt.Errorf("read %s: %w", journal, err)
	}
	return n == 1 && first[0] != 0, nil
}
