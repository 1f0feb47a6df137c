package transaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"teleport-update/health"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// recoveries returns the functions that do the recoveries.
func recoveries() map[recovery]func(*transaction, context.Context) error {
	return map[recovery]func(*transaction, context.Context) error{
		putsFilesBack: (*transaction).undoAtBoot, undoesIt: (*transaction).undoUnknown, watchesAgain: (*transaction).watchAgain,
		undoesTheRest: (*transaction).undoAndLog, leavesFiles: (*transaction).leave, seesOldRun: (*transaction).undoAndLog,
		seesFilesThere: (*transaction).reconcileAtBoot, commits: (*transaction).finish, replacesRest: (*transaction).finish,
	}
}

func (t *transaction) undoUnknown(ctx context.Context) error {
	if err := t.j.setVerdict(state.AgainstInterruption, ""); err != nil {
		return err
	}
	return t.undoAndLog(ctx)
}

// undoAndLog goes on even if the context of the transaction has ended.
func (t *transaction) undoAndLog(ctx context.Context) error {
	err := t.undo(context.WithoutCancel(ctx))
	if errors.Is(err, health.ErrHostStopping) {
		return errNeedsBoot
	}
	if err != nil {
		return &failure.NeedsPersonError{Err: fmt.Errorf("undo the transaction to %s: %w; the next run tries again", t.j.To, err)}
	}
	told := []any{"to", t.j.To.String(), "reason", t.reason()}
	if kept := t.keptAside(); len(kept) > 0 {
		told = append(told, "aside", strings.Join(kept, ", ")) // maybe by another process, at boot
	}
	t.m.Host.Log.Info("the transaction was undone", told...)
	return nil
}

// watchAgain gives a transaction that was cut off while the new version ran a second
// watch, once: the cut says nothing about the version.
func (t *transaction) watchAgain(ctx context.Context) error {
	sight, err := t.agent.Look(ctx)
	if err != nil {
		return err
	}
	if t.j.Watch.Again || t.bootedSince(ctx) || !t.j.Agent.State.Wanted() || !sight.runsFrom(t.j.To.ProgramsDir()) {
		return t.undoUnknown(ctx)
	}
	if t.runsMasked(sight) {
		return t.leftOpen(maskedError(sight.Name))
	}
	spec, err := t.healthSpec()
	if err != nil {
		return err
	}
	// There is no third watch, so all that this one needs is read first.
	if err := t.j.journalSecondWatch(true); err != nil {
		return err
	}
	w := watchOf(t.j.To.ProgramsDir(), spec, sight)
	t.m.Host.Log.Info("watching the agent once more", "version", t.j.To.String(), "window", w.Window.Std())
	_, err = t.agent.Prove(ctx, health.Running, w)
	unhealthy, isUnhealthy := errors.AsType[*health.UnhealthyError](err)
	switch {
	case err == nil:
		t.m.Host.Log.Info("the agent is healthy", "version", t.j.To.String())
		if err := t.enterProven(); err != nil {
			return err
		}
		return t.finish(ctx)
	case errors.Is(err, health.ErrHostStopping):
		return errNeedsBoot
	case ctx.Err() != nil:
		return fmt.Errorf("close the transaction to %s: interrupted (%w); the next run goes on with it", t.j.To, context.Cause(ctx))
	case outOfReach(err):
		return errors.Join(t.leftOpen(err), t.j.journalSecondWatch(false))
	case !isUnhealthy:
		return err
	}
	t.m.Host.Log.Warn("rolling back", "version", t.j.To.String(), "error", err)
	if err := t.j.setUnhealthy(err.Error(), unhealthy); err != nil {
		return err
	}
	return t.undoAndLog(ctx)
}

// leave is for phases in which nothing about the files is open.
func (t *transaction) leave(context.Context) error { return nil }

// undoAtBoot puts links, unit and database back.
func (t *transaction) undoAtBoot(ctx context.Context) error {
	u := t.undoing(true)
	if notThere := u.awaits(ctx); notThere != nil {
		t.m.Host.Log.Warn("what goes back is not there yet; nothing is changed until the first run of the timer", "to", t.j.To.String(),
			"error", notThere)
		return u.keepPair(ctx)
	}
	if t.j.Phase != rollingBack {
		if err := t.j.setVerdict(state.AgainstInterruption, ""); err != nil {
			return err
		}
	}
	if err := t.j.setOldServes(false); err != nil {
		return err
	}
	t.m.Host.Log.Warn("putting the old version back before the agent starts", "to", t.j.To.String(), "phase", string(t.j.Phase))
	if err := u.undoSteps(ctx); err != nil {
		return &failure.NeedsPersonError{Err: fmt.Errorf("undo the transaction to %s at boot: %w; the next run tries again", t.j.To, err)}
	}
	if err := t.agent.ResetFailed(ctx); err != nil && !t.j.Agent.ReloadOwed {
		return err
	}
	return nil
}

// reason returns why the transaction is undone.
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
			return t.leftOpen(why) // each run would restart it, and take it for dead
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
	// An older program set Fresh also for units that it put back on a host with an active version.
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
	if err := t.close(ctx); err != nil {
		return err
	}
	t.m.Retain(ctx, c)
	return nil
}

// recordUndone counts a failure or an interruption, once: after a cut before the journal is gone,
// the next run finds the transaction named.
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
