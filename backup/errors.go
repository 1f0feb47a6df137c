package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"teleport-update/internal/space"
)

// busyTimeout is the longest wait for another process's lock. Teleport itself waits as long.
const busyTimeout = 10 * time.Second

// ErrUnsettled says that a database cannot be read before it is recovered, and a reader must not recover it.
var ErrUnsettled = errors.New("the journal of an interrupted write lies beside it: the agent recovers it when it starts")

// ErrNoDatabase says that the host has no agent database.
var ErrNoDatabase = errors.New("the host has no agent database")

// ErrLocked says that another process kept its lock on the database for longer than busyTimeout.
var ErrLocked = errors.New("stayed locked by another process")

// A CorruptError says that the agent's database is damaged, or is no SQLite
// database at all, so that no backup of it is possible.
type CorruptError struct {
	Path   string // of the database
	Detail string // what SQLite says
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is damaged or not an SQLite database: %s", e.Path, e.Detail)
}

// NotLooked reports whether an error says that a database could not be looked at, because of the host or of another process: then nothing
// is known about the database.
func NotLooked(err error) bool {
	_, errno := errors.AsType[unix.Errno](err)
	return errno || errors.Is(err, ErrLocked) || errors.Is(err, sqlite3.CANTOPEN) || ofHost(err)
}

// explain turns an error of SQLite in its work on the agent's database at path into an error that says what it means here. Room is needed
// in dir.
func explain(ctx context.Context, err error, path, dir string) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, sqlite3.INTERRUPT):
		return context.Cause(ctx)
	case errors.Is(err, sqlite3.NOTADB), errors.Is(err, sqlite3.CORRUPT):
		return &CorruptError{Path: path, Detail: err.Error()}
	case errors.Is(err, sqlite3.FULL), errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return space.Explain(unix.ENOSPC, dir)
	case errors.Is(err, sqlite3.READONLY):
		return fmt.Errorf("%s: %w (%w)", path, unix.EROFS, err)
	case errors.Is(err, sqlite3.IOERR) && ofHost(err):
		return fmt.Errorf("%s: %w (%w)", path, unix.EIO, err)
	case errors.Is(err, sqlite3.BUSY):
		return fmt.Errorf("%s %w for %s: %w", path, ErrLocked, busyTimeout, err)
	}
	if _, named := errors.AsType[*fs.PathError](err); named {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// contain turns a panic into an error. The SQLite library panics in cases in which the C library would crash or return "out of memory". The
// content of a file that somebody else wrote causes that: a reason to refuse, not to die in the middle of a transaction.
func contain(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the SQLite library gave up: %v", r)
	}
}
