package transaction

import (
	"fmt"

	"teleport-update/backup"
	"teleport-update/internal/durable"
)

// forgetMounts has the boots after the transaction wait for nothing.
func (m *Machine) forgetMounts() {
	m.warn(m.Host.OwnUnits().ForgetMounts(), "boots may wait for the agent's data as if a transaction were open")
}

// close ends the transaction: the journal is removed, and then what is there for its
// sake. Only the second name of its backup goes first: an older program takes a backup that
// has two names for a damaged one, and knows by the journal alone that it is to leave it.
func (t *transaction) close() error {
	if d := t.j.Database; d.Taken {
		t.m.warn(backup.Settle(d.Dir), "records of yesterday would take the transaction for one whose journal is lost")
	}
	t.m.dropSecondName()
	t.m.warn(forgetStop(t.m.Host.Paths.Stopped()), "an agent that somebody stops may be started again")
	if err := durable.Remove(t.m.Host.Paths.Journal()); err != nil {
		return fmt.Errorf("close the journal: %w", err)
	}
	t.m.forgetMounts()
	return nil
}
