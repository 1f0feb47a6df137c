package transaction

import (
	"context"
	"errors"
	"fmt"
	"time"

	"teleport-update/backup"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/folder"
	"teleport-update/internal/procfs"
)

const (
	// afterStop is how long to wait for users of the database while there is no agent: for processes
	// that come and go.
	afterStop = 3 * time.Second

	// usersEvery is the time between two looks at who uses the database.
	usersEvery = 200 * time.Millisecond
)

// holdDatabase opens the agent's database for a transaction that is about to begin, and notes its
// folder. If there is no database, it does nothing.
func (t *transaction) holdDatabase(ctx context.Context, d *state.Database) error {
	db, err := backup.Open(d.Path)
	if errors.Is(err, backup.ErrNoDatabase) {
		return nil
	}
	if err != nil {
		return err
	}
	t.db = db
	d.Folder, err = db.Folder(t.m.thisBoot(ctx, t.agent))
	return err
}

// database opens the agent's database, once, in the folder that the transaction began
// with, and no other: the folder may be the agent's user's, who could have put another
// in its place, or be on a disk that is not mounted yet.
func (t *transaction) database(ctx context.Context) (*backup.Database, error) {
	if t.db != nil {
		return t.db, nil
	}
	d := t.j.Database
	db, err := backup.Open(d.Path)
	if err != nil {
		return nil, err
	}
	db.Knows(backup.Sum{Size: d.Size, CRC32C: d.CRC32C}, d.Dir, d.SecondDir)
	if err := t.checkFolder(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	t.db = db
	return db, nil
}

// checkFolder returns an error unless the database is in the folder that the transaction began
// with. A boot may give one disk other numbers. Then the content decides: it has to be this agent's
// database, of the version before or of the one after. A folder that is certainly another one may
// have been made by an agent that found none. Then only the identity that was backed up decides,
// for the tables of such an agent are no different.
func (t *transaction) checkFolder(ctx context.Context, db *backup.Database) error {
	want := t.j.Database.Folder
	got, err := db.Folder(t.m.thisBoot(ctx, t.agent))
	if sameBoot(got.Boot, want.Boot) {
		got.Boot = want.Boot
	}
	if err != nil || want == (folder.ID{}) || got.Same(want) {
		return err
	}
	if want.Mount != "" && got.Mount != want.Mount {
		return fmt.Errorf("the folder of %s is on %s, and was on %s when the transaction began; "+
			"nothing is done in it, for its file system may be mounted later: %w",
			db.Path(), got.Mount, want.Mount, backup.ErrNoDatabase)
	}
	if got.Boot == want.Boot {
		return fmt.Errorf("the folder of %s is not the one that the transaction began with; nothing is changed in it: put the first folder back",
			db.Path())
	}
	backups := t.backups()
	if t.j.Database.Plan == state.RestoreDatabase {
		backups = append(backups, t.j.To.Dir+"/backup")
	}
	for _, dir := range backups {
		known, knownErr := db.DescendsFrom(ctx, dir)
		if known == backup.SameIdentity || known == backup.SameTables && !got.Differs(want) {
			t.m.Host.Log.Warn("the folder of the agent's database has another device or inode number since the boot; "+
				"its content shows that it is the same", "database", db.Path())
			return nil
		}
		err = errors.Join(err, knownErr)
	}
	return fmt.Errorf("the folder of %s is not the one from before the host was booted, and its database may not be this agent's; "+
		"nothing is done in it: put the first folder back, or wait for its disk; if the folder is a copy of the agent's data that "+
		"somebody put back, remove %s, and the next run undoes the transaction in it: %w",
		db.Path(), t.m.Host.Paths.Journal(), errors.Join(err, backup.ErrNoDatabase))
}

// waitUnused waits until no process but the agent's is connected to the database or may
// write it; then it returns nil, and after so long a *backup.InUseError. The agent may
// run: no lock is taken, and nothing is stopped.
func (t *transaction) waitUnused(ctx context.Context, patience time.Duration) error {
	if t.db == nil && t.j == nil {
		return nil // there is no database
	}
	db, err := t.database(ctx)
	if err != nil {
		return err
	}
	told := false
	for limit := time.Now().Add(min(patience, t.m.UserPatience)); ; {
		// The agent may have been restarted since. If it cannot be looked at, as at boot, nothing runs
		// yet.
		sight, _ := t.agent.Look(ctx)
		if err := db.CheckUnused(sight.ended()); !failure.Is[*backup.InUseError](err) || !time.Now().Before(limit) {
			return err
		} else if !told {
			told = true
			t.m.Host.Log.Info("waiting for a process that has the agent's database open", "limit", patience, "error", err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(usersEvery):
		}
	}
}

// seeUsers refuses to replace the database if this process lacks the right to look at a process that may have the
// database open: what that process writes would be lost. It is called before anything is stopped, and by no undoing,
// which has to put the database back all the same. Whether the agent's own process is seen is checked before, see
// isSeen. If nobody here can look at a process, as under a security module or outside of a container, seeUsers only
// warns: a refusal would keep the host on its version for ever.
func seeUsers(m *Machine, path, what string) error {
	db, err := m.openChecked(path)
	if err != nil {
		return err
	}
	defer db.Close()
	err = db.UsersSeen()
	if err != nil && procfs.MayLook() {
		m.Host.Log.Warn("whether a process has the agent's database open cannot be told", "database", path, "error", err)
		return nil
	}
	if err != nil {
		return failure.Unchanged("%s is refused, for nobody can tell who uses %s: %w", what, path, err).
			To("run it with the right to look at all processes (CAP_SYS_PTRACE, a /proc that shows them all), or end that process").Refused()
	}
	return nil
}

// cannotBegin makes a refusal of an error about users of the database, which says nothing about the
// version. Other errors stay as they are.
func cannotBegin(err error, req Request, now failure.Aftermath) error {
	if !failure.Is[*backup.InUseError](err) {
		return err
	}
	return (&failure.Error{
		What: fmt.Errorf("the transaction to version %s is refused: %w", req.To.Short(),
			err), State: now, Fix: "end that process, or wait for its end",
	}).Refused()
}

// journalRemovedData records that a command of the agent's unit removed the folder of the database, as on hosts that drop
// the data with each stop. Then there is nothing to restore, and the agent begins with no data, as after each start: see
// losesData. Only a folder that is held open proves it: a missing folder, or another in its place, may be the work of a
// person, or on a disk that is not mounted.
func (t *transaction) journalRemovedData(ctx context.Context) error {
	if !t.j.Database.Taken || t.j.Database.Restored {
		return nil
	}
	return journalIfRemoved(ctx, t)
}

// journalIfRemoved is journalRemovedData for a database that was not backed up yet.
func journalIfRemoved(ctx context.Context, t *transaction) error {
	if t.db == nil || !t.db.Removed() {
		return nil
	}
	sight, err := t.agent.Look(ctx)
	if err != nil || !sight.Ties.Commands {
		return err
	}
	t.m.Host.Log.Warn("the agent's data were removed, and its unit runs commands when it starts or stops, which may remove them each time "+
		"(ExecStartPre=, ExecStop=, ExecStopPost=); no database is restored", "database", t.j.Database.Path, "backup", t.j.Database.Dir)
	if err := t.j.journalNoData(); err != nil {
		return err
	}
	t.closeDatabase()
	return nil
}
