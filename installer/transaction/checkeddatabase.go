package transaction

import (
	"os"
	"path/filepath"
	"syscall"

	"teleport-update/backup"
	"teleport-update/internal/failure"
	"teleport-update/internal/trust"
)

// openChecked opens the folder of a database that passes checkDataDir.
func (m *Machine) openChecked(path string) (*backup.Database, error) {
	db, err := backup.Open(path)
	if err != nil {
		return nil, err
	}
	if err := m.checkDataDir(db, path); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// checkDataDir refuses a database that somebody other than root could have named by the
// agent's configuration, unless it is that user's own: no file of root's, or of anybody
// else's, is read or replaced by that user's word.
func (m *Machine) checkDataDir(db *backup.Database, path string) error {
	places, err := m.Host.AgentPlaces()
	if err != nil || places.DataDir != "" {
		return err // named by the unit, which is root's
	}
	config := places.Config
	named := trust.Path(config)
	if named == nil || filepath.Dir(filepath.Dir(path)) == m.Host.Paths.DataDir {
		return nil
	}
	uid, err := db.Owner()
	if err != nil {
		return err
	}
	info, err := os.Stat(config)
	if err != nil {
		return failure.Unchanged("look at the agent's configuration: %w", err)
	}
	if owner := int(info.Sys().(*syscall.Stat_t).Uid); uid == 0 || uid != owner {
		return failure.Unchanged("%s names the database %s, whose folder belongs to user %d, and is not believed: %w", config, db.Path(), uid,
			named).
			To("make the configuration writable by root only, or give the folder to the user who can write it").Refused()
	}
	return nil
}
