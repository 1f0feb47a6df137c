package transaction

import "context"

// journalRemovedData writes down that a command of the agent's unit removed the folder of the database, as on hosts whose
// data are to go with each stop. Then there is nothing to restore, and the agent begins with no data, as after each start:
// see losesData. Only a folder that is held open tells: one that is missing, or another in its place, may be the work of a
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
