package transaction

import (
	"cmp"
	"context"
	"errors"

	"teleport-update/installer/state"
)

// reason is why the transaction is undone.
func (t *transaction) reason() string {
	return cmp.Or(t.j.Verdict.Reason, "the transaction was interrupted")
}

// undo undoes the steps, from the journal alone, and closes the transaction. It can be
// cut off anywhere and begun again.
func (t *transaction) undo(ctx context.Context) error {
	if err := t.journalIfBooted(ctx); err != nil {
		return err
	}
	if sight, err := t.agent.Look(ctx); err == nil {
		if t.runsMasked(sight) {
			return maskedError(sight.Name)
		}
		if why := sight.hidden(); why != nil {
			return t.leftOpen(why) // it would be restarted in each run, and taken for dead
		}
	}
	err := t.undoing(false).undoSteps(ctx)
	t.startDependents(ctx)
	if err != nil {
		return err
	}
	return t.closeUndone(ctx)
}

// closeUndone records how the transaction ended and removes the journal.
func (t *transaction) closeUndone(ctx context.Context) error {
	c, lost, err := t.config()
	if err != nil {
		return errors.Join(err, t.j.journalOver())
	}
	if last := c.Status.LastUpdate; last == nil || t.j.ID == "" || last.Transaction != t.j.ID {
		t.recordUndone(&c.Status)
		t.describeDown(ctx, c.Status.LastUpdate)
		t.describeAside(c.Status.LastUpdate, lost)
	}
	// An older program wrote so also of units that it put back on a host with an active version.
	if t.j.OwnUnits.Fresh && c.Spec.ActiveVersion == "" {
		if err := t.m.Host.RemoveUnits(ctx, t.agent); err != nil {
			return err
		}
	}
	if t.m.Host.NeverEnabled(c) {
		t.m.Host.ForgetFirst(t.j.To.Release)
	} else {
		t.m.Host.DropUndone(t.j.Links)
	}
	if err := c.Save(t.m.Host.Paths.Config()); err != nil {
		return err
	}
	if err := t.close(); err != nil {
		return err
	}
	t.m.Retain(ctx, c)
	return nil
}

// recordUndone counts a failure or an interruption, once: whoever is cut off before
// the journal is gone finds the transaction named.
func (t *transaction) recordUndone(s *state.Status) {
	against, result := t.j.Verdict.Against, state.RolledBack
	switch {
	case against == state.AgainstInterruption:
		result = state.Interrupt
		if s.RecordInterruption(t.j.To.Release) {
			against = state.AgainstVersion
		}
	case !t.j.reached("backup"):
		result = state.FailedEarly
	}
	s.LastUpdate = &state.LastUpdate{
		Time: t.m.Timestamp(), Target: t.j.To.Version, TargetEdition: t.j.To.Edition,
		Result: result, Error: t.reason(), ErrorCode: t.j.Verdict.ErrorCode, SkippedBackup: t.j.Commit.SkippedBackup,
		Transaction: t.j.ID, Took: t.durations(),
	}
	if against == state.AgainstVersion {
		s.RecordFailure(t.j.To, t.m.Now(), t.reason())
	}
}
