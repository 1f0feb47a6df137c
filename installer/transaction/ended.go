package transaction

import (
	"context"
	"fmt"

	"teleport-update/backup"
	"teleport-update/installer/state"
)

// CheckEnded says that a switch away from the active version began and neither ended nor
// can be told any more: somebody removed its journal. What it left tells of it, the backup,
// which is younger than the last outcome; with a database of that schema nothing is wrong.
// What cannot be read tells nothing.
func (m *Machine) CheckEnded(ctx context.Context, c state.Config) error {
	tree, ok, err := m.Active(c)
	if err != nil || !ok {
		return nil
	}
	dir := tree.BackupDir()
	made, err := backup.Created(dir)
	if last := c.Status.LastUpdate; err != nil || last != nil && !made.After(last.Time) {
		return nil
	}
	path, err := m.Database()
	if err != nil || m.probe(ctx, path) != nil {
		return nil
	}
	db, err := backup.Open(path)
	if err != nil {
		return nil
	}
	defer db.Close()
	if same, err := db.SameSchema(ctx, dir); err != nil || same {
		return nil
	}
	return fmt.Errorf("a switch from version %s was begun and its journal is gone, so nobody undoes it: the agent's database %s was changed by another version since the backup in %s; "+
		"where the agent does not start, stop it and put that backup in the database's place, without the -wal and -shm of the other one", tree.Release.Short(), db.Path(), dir)
}
