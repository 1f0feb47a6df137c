package transaction

import (
	"context"
	"crypto/rand"
	"fmt"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// newJournal is the journal of a transaction that begins now.
func (m *Machine) newJournal() *state.Journal {
	return &state.Journal{Head: state.Head{Writer: m.Host.Program}, ID: rand.Text(), Started: m.Timestamp(), BootID: m.BootID()}
}

// CountOnRescuer runs the program that the recovery at boot runs, before the first change of a
// transaction: a power cut in the middle of one needs it. That the file is there says nothing:
// its file system may be mounted noexec, its mode be lost.
func (m *Machine) CountOnRescuer(ctx context.Context) error {
	if _, _, err := m.askRescuer()(ctx); err != nil {
		return failure.Unchanged("the recovery at boot, which would repair an update that a power cut ends, cannot run its program: %w", err).
			To("make the program executable (`teleport-update verify` says what is in the way), then run the command again").Refused()
	}
	return nil
}

func (m *Machine) askRescuer() func(context.Context) (program string, schema int, err error) {
	if m.AskRescuer != nil {
		return m.AskRescuer
	}
	return m.Host.Rescuer
}

// CheckSight refuses a change if this process may not look at the agent's: it would take an
// agent that serves for a dead one, restart it, and blame the version. The same where the
// agent, once it is started again, would not see the folders that a version is started from.
func (m *Machine) CheckSight(s Sight) error {
	if s.State.Wanted() {
		err := host.CheckAccess(s.Unit, systemd.Seeing, m.Host.Paths.LinkDir)
		if err == nil {
			err = host.CheckAccess(s.Unit, systemd.Executing, m.Host.Paths.Programs())
		}
		if err != nil {
			return failure.Unchanged("a version could not be started: %w", err).Refused()
		}
	}
	if err := s.hidden(); err != nil {
		return failure.Unchanged("nobody could tell whether a version is healthy: %w", err).
			To("see `systemctl cat teleport-update.service` and the drop-ins of teleport-update-switch-.service").Refused()
	}
	return nil
}

// suitRescuer sees, before the first change, that the program which the recovery at
// boot would run can act on a journal. What it is too old for is left out, where the
// transaction can do without; else the transaction is refused. What every program
// can act on costs nothing.
func (m *Machine) suitRescuer(ctx context.Context, j *state.Journal) error {
	if err := j.Stamp(j); err != nil || j.ForAll() {
		return err
	}
	program, schema, err := m.askRescuer()(ctx)
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
