package transaction

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// newJournal is the journal of a transaction that begins now.
func (m *Machine) newJournal(ctx context.Context, agent looker) *state.Journal {
	j := &state.Journal{Head: state.Head{Writer: m.Host.Program}, ID: rand.Text(), Started: m.Timestamp()}
	j.SetBoot(m.thisBoot(ctx, agent))
	return j
}

// suitRescuer sees, before the first change, that the program which the recovery at
// boot would run can act on a journal. What it is too old for is left out, where the
// transaction can do without; else the transaction is refused. What every program
// can act on costs nothing.
func (m *Machine) suitRescuer(ctx context.Context, j *state.Journal) error {
	if err := j.Stamp(j); err != nil || j.ForAll() {
		return err
	}
	program, schema, err := m.AskRescuer(ctx)
	known := fmt.Sprintf("%s knows schema %d", program, schema)
	if err != nil {
		known = err.Error()
	}
	second := j.Database.SecondDir
	if err := j.Fit(schema); err != nil {
		return failure.Refuse("the recovery at boot could not undo this transaction: %v, and %s: upgrade the package of teleport-update", err,
			known)
	}
	if second != "" && j.Database.SecondDir == "" {
		m.Host.Log.Info("the backup of the database gets no second name, which the recovery at boot could not use", "rescuer", known)
	}
	return nil
}

// systemdRuns says why systemd could not run a program that this process can: a security module, as SELinux, decides by who executes
// what, and the recovery at boot is executed by systemd.
func systemdRuns(ctx context.Context, by runner, program string) error {
	said, says, err := os.Pipe() // what it says is known, fits in, and is not for the journal
	if err != nil {
		return err
	}
	defer said.Close()
	defer says.Close()
	code, ran, err := by.RunTransient(ctx, systemd.Transient{
		Description: "a try of the recovery of teleport-update",
		Argv:        []string{program, "version", "--format", "json"},
		Env:         []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"},
		RuntimeMax:  30 * time.Second,
		Stdout:      says,
	})
	switch {
	case outOfReach(err), failure.Is[*systemd.GoesOnError](err):
		return fmt.Errorf("have systemd run %s: %w", program, err)
	case err != nil:
		return fmt.Errorf("systemd cannot run %s, and this process can: %w; a security module may forbid it, as SELinux where the file has "+
			"not the label bin_t (`ls -Z %[1]s`, `ausearch -m avc -ts recent`)", program, err)
	case ran && code != 0:
		return fmt.Errorf("%s ends with %d if systemd runs it, and with 0 if this process does", program, code)
	}
	return nil
}
