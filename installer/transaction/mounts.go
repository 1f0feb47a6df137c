package transaction

import (
	"fmt"
	"path/filepath"
	"strings"

	"teleport-update/installer/state"
	"teleport-update/internal/durable"
)

// awaitMounts has the recovery at boot wait for the file system that the agent's
// database is on, where that may be mounted late. It is a help and no guard: the
// recovery looks for itself, see awaits.
func (t *advancing) awaitMounts(d state.Database) {
	// The unit itself waits for what the data folder is on.
	if m := d.Folder.Mount; m == "" || m == "/" || isAbove(m, t.t.m.Host.Paths.DataDir) {
		return
	}
	t.t.m.warn(t.t.m.Host.OwnUnits().AwaitMounts(d.Path, t.t.db.Path()),
		"at a boot, a recovery of this transaction may come before the agent's data, and leave them to the first tick")
}

func isAbove(dir, path string) bool {
	real, err := filepath.EvalSymlinks(path)
	return err == nil && strings.HasPrefix(real+"/", dir+"/")
}

// forgetMounts has the boots after the transaction wait for nothing.
func (m *Machine) forgetMounts() {
	m.warn(m.Host.OwnUnits().ForgetMounts(), "boots may wait for the agent's data as if a transaction were open")
}

// close ends the transaction: the journal is removed, and then what is there for its
// sake. Only the second name of its backup goes first: an older program takes a backup that
// has two names for a damaged one, and knows by the journal alone that it is to leave it.
func (t *transaction) close() error {
	t.m.dropSecondName()
	if err := durable.Remove(t.m.Host.Paths.Journal()); err != nil {
		return fmt.Errorf("close the journal: %w", err)
	}
	t.m.forgetMounts()
	return nil
}
