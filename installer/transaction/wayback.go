package transaction

import (
	"context"
	"errors"
	"fmt"

	"teleport-update/backup"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
	"teleport-update/internal/space"
	"teleport-update/versions"
)

// A transaction makes, before its first change, the files that its undoing needs: a spare of the journal, of each link and of the unit,
// and a reserve for the restore of the database. The undoing then changes names, and takes the reserve. A file system that has filled
// up meanwhile is not in its way.

// makeWayBack makes these files, except for the journal's spare, which comes with the journal. An error refuses the transaction.
func (t *transaction) makeWayBack(ctx context.Context, to versions.Tree) error {
	err := host.MakeSpares(t.m.Host, to, t.j.Links, t.j.Unit)
	if err == nil {
		err = t.reserve(ctx)
	}
	if err == nil {
		return nil
	}
	fix := "correct that, then run the command again"
	if failure.Is[*space.Error](err) {
		fix = "free some space, then run the command again"
	}
	return failure.Unchanged("keep what an undoing of the change needs: %w", err).To("%s", fix).Refused()
}

// reserve keeps room for the restore of the database as it was when the transaction began.
func (t *transaction) reserve(ctx context.Context) error {
	if t.j.Database.Plan == state.KeepDatabase {
		return nil
	}
	db, err := t.database(ctx)
	if err != nil {
		return err
	}
	size, err := db.Size()
	if err != nil {
		return err
	}
	return db.Reserve(size)
}

// hasReserve reports whether room for the restore is kept.
func (t *transaction) hasReserve(ctx context.Context) bool {
	if t.j.Database.Plan == state.KeepDatabase {
		return false
	}
	db, err := t.database(ctx)
	return err == nil && db.HasReserve()
}

// dropReserve gives the room back, for the restore, for the agent that starts then, and at the end of a transaction.
func (t *transaction) dropReserve(ctx context.Context) error {
	if t.j.Database.Plan == state.KeepDatabase {
		return nil
	}
	// Unlike a restore, it may look beside a database of another folder: nobody else gives these names.
	db, err := backup.Open(t.j.Database.Path)
	if err != nil {
		return err
	}
	return errors.Join(db.DropReserve(), db.Close())
}

const (
	// roomOfEnd and filesOfEnd are what the end of a transaction writes beside the agent's files: updates.yaml, the history, a link.
	roomOfEnd  = 64 << 10
	filesOfEnd = 4
)

// FullFor returns the file system that is too full for a run to close an open transaction; nil if none is. systemd is systemd's folder
// in /run. An undoing has the spares of links and unit, and makes systemd read the unit; a proven version gets the updater's own link.
func FullFor(j *state.Journal, p state.Paths, systemd string) *space.Error {
	if full := space.CheckForRoot(p.Versions(), roomOfEnd, filesOfEnd); full != nil {
		return full
	}
	if row, _ := phaseOf(j.Phase); row.succeeds {
		return space.CheckForRoot(p.LinkDir, roomOfEnd, filesOfEnd)
	}
	return fullRun(systemd)
}

// dropSpares removes the spares of a transaction that has ended.
func (m *Machine) dropSpares() error {
	err := errors.Join(host.DropSpares(m.Host), durable.DropSpares(m.Host.Paths.Versions()))
	if err != nil {
		return fmt.Errorf("remove the spares of a transaction: %w", err)
	}
	return nil
}
