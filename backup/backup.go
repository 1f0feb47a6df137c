// Package backup keeps copies of the agent's SQLite state and puts them back,
// so that a version that is returned to finds the database it left (RFD 0169
// §Downgrades).
//
// A backup is a folder that holds two files:
//
//	sqlite.db     the database, whole in itself: no journal and no WAL beside it
//	backup.yaml   what it is a backup of; written last, so its presence means
//	              that sqlite.db is complete and on stable storage
//
// # Taking one
//
// The agent's database is only read. It is never written to, never
// checkpointed and never given a file of ours beside it, and what lies beside
// it stays. SQLite's backup API copies it within one read transaction, so the
// copy is the state of one moment however much the agent writes meanwhile, and
// no write makes the copying start again. In WAL mode nobody waits for it; with
// a rollback journal, writers wait while the pages are copied. What a read-only
// connection cannot do without leaving something behind — a journal to roll
// back, a WAL without its index — is done on a copy, made while an exclusive
// lock keeps everybody else out.
//
// A crash at any point leaves the backup that was there, whole, or none, or the
// new one, whole: the copy has a temporary name until it is checked and synced,
// and an old backup.yaml is gone before the old sqlite.db is.
//
// # Restoring one
//
// No process may be connected to the database, or able to write it; who merely has
// it open for reading does not matter. Then the backup API writes the other
// way, which is a transaction: a crash leaves all of the old database or all of
// the new. Where that is not possible, because what is there cannot be read or
// has another page size, the file is replaced. Journals and WALs belong to
// one file and are poison beside another, so they go first, durably. Restoring
// again is always safe, and is the way out of any interruption.
//
// The folder of the database may belong to a user who is not root. It is opened
// once (see Database), no link is followed out of it, and nothing outside of it is
// named to SQLite: what its owner puts in its place, while a backup is taken or
// restored, is not touched.
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
	"teleport-update/internal/version"
)

// The files of a backup folder.
const (
	FileName = "sqlite.db"
	metaName = "backup.yaml"
)

// sidecars are what SQLite may keep beside a database. They belong to that one
// file.
var sidecars = [...]string{"-journal", "-wal", "-shm"}

// Meta says what a backup is a backup of.
type Meta struct {
	// Proxy is the address of the cluster that the agent belonged to.
	Proxy string
	// Version is the agent's version that wrote the database, without "v".
	Version string
	// Edition is that version's edition; empty where a backup does not say.
	Edition version.Edition
	// Created is when the backup was taken.
	Created time.Time
}

// ErrNoDatabase says that the host has no agent database.
var ErrNoDatabase = errors.New("the host has no agent database")

// A CorruptError says that the agent's database is damaged, or is no SQLite
// database at all, so that no backup of it is possible.
type CorruptError struct {
	Path   string // of the database
	Detail string // what SQLite says
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is damaged or not an SQLite database: %s", e.Path, e.Detail)
}

// explain turns what SQLite reports while it works on the agent's database at
// path into an error that says what it means here. Room is needed in dir.
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
	case errors.Is(err, sqlite3.BUSY):
		return fmt.Errorf("%s stayed locked by another process for %s: %w", path, busyTimeout, err)
	}
	if _, named := errors.AsType[*fs.PathError](err); named {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// contain turns a panic into an error. The SQLite library panics where the C
// one would crash or return "out of memory", and what makes it do so is the
// content of a file that somebody else wrote: a reason to refuse, not to die in
// the middle of a transaction.
func contain(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the SQLite library gave up: %v", r)
	}
}
