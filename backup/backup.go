// Package backup keeps copies of the agent's SQLite state and restores them, so that a version to which the host returns finds the
// database that it left (RFD 0169 §Downgrades).
//
// A backup is a folder that holds two files:
//
//	sqlite.db     the database, whole in itself: no journal and no WAL beside it
//	backup.yaml   says what was backed up; written last, so its presence means
//	              that sqlite.db is complete and on stable storage
//
// # Taking one
//
// The agent's database is only read. It is never written to, never checkpointed and never given a file of ours beside it, and the files
// beside it stay. SQLite's backup API copies it within one read transaction, so the copy is the state of one moment however much the
// agent writes meanwhile, and no write makes the copying start again. In WAL mode nobody waits for it; with a rollback journal, writers
// wait while the pages are copied. If a read-only connection would leave something behind — a journal to roll back, a WAL without its
// index — the work is done on a copy, made while an exclusive lock keeps everybody else out.
//
// A crash at any point leaves the previous backup, whole, or no backup, or the new one, whole: the copy has a temporary name until it is
// checked and synced, and the old backup.yaml is removed before the old sqlite.db.
//
// # Restoring one
//
// No process may be connected to the database, or able to write it; a process that only has it open for reading does not matter. Then the
// backup API writes the other way, which is a transaction: a crash leaves all of the old database or all of the new. If that is not
// possible, because the old database cannot be read or has another page size, the file is replaced. Journals and WALs belong to one file
// and are poison beside another, so they go first, durably. Restoring again is always safe, and is the way out of any interruption.
//
// The folder of the database may belong to a user who is not root. It is opened once (see Database), no link is followed out of it, and
// nothing outside of it is named to SQLite: if its owner replaces it while a backup is taken or restored, the replacement is not touched.
package backup

import (
	"time"

	"teleport-update/internal/version"
)

// Meta says which database a backup has.
type Meta struct {
	// Proxy is the address of the cluster that the agent belonged to.
	Proxy string
	// Version is the agent's version that wrote the database, without "v".
	Version string
	// Edition is that version's edition; empty if a backup does not say.
	Edition version.Edition
	// Created is when the backup was taken.
	Created time.Time
}
