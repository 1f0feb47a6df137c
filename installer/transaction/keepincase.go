package transaction

import (
	"context"
	"errors"

	"teleport-update/backup"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
)

// An uninstall that leaves the database to the agent of before has a backup of it until that agent is proven.

// keepInCase backs up the database that stays, before the agent of before is started on it: that one may change the tables, and not be
// healthy. Where an uninstall goes on, and they are not changed, the backup is taken again, with what was written since.
func keepInCase(ctx context.Context, t *transaction, c state.Config, atBoot bool) error {
	if t.j.Database.Plan != state.BackupDatabase || t.asked().Proven {
		return nil
	}
	db, err := t.database(ctx)
	if err == nil && t.j.Database.Taken {
		if same, err := db.SameSchema(ctx, t.asked().KeepsIn); err != nil || !same {
			return nil
		}
	}
	if err == nil {
		err = takeToday(ctx, t, c, db, false)
	}
	gone := errors.Is(err, backup.ErrNoDatabase) && !atBoot // else its file system may be mounted later
	if gone || failure.Is[*backup.CorruptError](err) {
		t.m.Host.Log.Warn("the agent's database is not backed up", "error", err)
		return nil // today's version could not use it either
	}
	return wrap(err, "back up the agent's database before the agent that was here before starts on it: %w")
}

// takeToday backs up the database of today, to where it outlives the updater.
func takeToday(ctx context.Context, t *transaction, c state.Config, db *backup.Database, stopped bool) error {
	active := c.Active()
	meta := backup.Meta{Proxy: t.m.proxyOf(c.Spec), Version: active.Version, Edition: active.Edition, Created: t.m.Now()}
	if _, err := db.Take(ctx, backup.TakeRequest{Dir: t.asked().KeepsIn, Meta: meta, Stopped: stopped}); err != nil {
		return err
	}
	return t.j.journalTodayKept()
}

// dropNeedless removes the backup of the database that stays, unless the agent of before has changed the tables: then it is all that a
// version of today could start with.
func dropNeedless(ctx context.Context, t *transaction) error {
	d := t.j.Database
	if d.Plan != state.BackupDatabase || !d.Taken || !host.Exists(t.asked().KeepsIn) {
		return nil
	}
	db, err := t.database(ctx)
	if err != nil {
		return err
	}
	switch same, err := db.SameSchema(ctx, t.asked().KeepsIn); {
	case err != nil:
		return err
	case !same:
		t.m.Host.Log.Info("the agent that was here before has changed the tables of its database: a backup of before is kept",
			"backup", t.asked().KeepsIn)
		return nil
	}
	return dropKept(t)
}

// dropKept removes the backup that this uninstall took.
func dropKept(t *transaction) error {
	err := durable.RemoveAll(t.asked().KeepsIn)
	_ = durable.RemoveEmpty(t.m.Host.Paths.KeptBackups()) // an earlier uninstall may have left others there
	return err
}
