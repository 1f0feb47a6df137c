package transaction

import (
	"cmp"

	"teleport-update/backup"
	"teleport-update/internal/failure"
)

// The backup that an open transaction goes back to is in the folder of the version that
// is being left, where RFD 0169 has it. Whoever removes that version by hand takes the
// only copy of its database with it. So the backup has a second name, in a folder of its
// own, as long as the transaction is open.

// giveSecondName returns the folder in which the backup has its second name now, before
// the journal says that there is a backup. Without one the transaction goes on: it takes
// somebody who removes the backup to need it.
func (t *transaction) giveSecondName() (second string) {
	d := t.j.Database
	if d.SecondDir == "" {
		return ""
	}
	if err := backup.GiveSecondName(d.Dir, d.SecondDir); err != nil {
		t.m.Host.Log.Warn("whoever removes the version before while this transaction is open takes the only backup of its database", "error", err)
		return ""
	}
	return d.SecondDir
}

// dropSecondName removes the second name once no transaction needs it. What is left of it
// takes room that the next backup may need, so each run without a journal tries again.
func (m *Machine) dropSecondName() {
	m.warn(backup.DropSecondName(m.Host.Paths.Rollback()), "a leftover of a transaction stays")
}

// backups are the folders in which the backup of the transaction has a name.
func (t *transaction) backups() []string {
	d := t.j.Database
	if d.SecondDir == "" {
		return []string{d.Dir}
	}
	return []string{d.Dir, d.SecondDir}
}

// withBackup does something with the backup by the first of its names under which it is
// there and whole. Where there is none, the error is what is wrong with it in the first
// place.
func (t *transaction) withBackup(do func(dir string) error) error {
	var first error
	for _, dir := range t.backups() {
		err := do(dir)
		if !failure.Is[*backup.InvalidError](err) {
			return err
		}
		first = cmp.Or(first, err)
	}
	return first
}
