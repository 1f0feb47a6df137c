package transaction

import (
	"context"
	"crypto/rand"
	"fmt"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// newJournal returns the journal of a transaction that begins now.
func (m *Machine) newJournal(ctx context.Context, agent looker) *state.Journal {
	j := &state.Journal{Head: state.Head{Writer: m.Host.Program}, ID: rand.Text(), Started: m.Timestamp()}
	j.SetBoot(m.thisBoot(ctx, agent))
	return j
}

// suitRescuer checks, before the first change, that the program that the recovery at boot would run
// can act on a journal. A part that it is too old for is left out, if the transaction can do
// without; otherwise the transaction is refused. A journal that every program can act on needs no
// question.
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
