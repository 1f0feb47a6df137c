package transaction

import (
	"context"
	"errors"
	"slices"
)

// undo undoes the steps, from the journal alone, and closes the transaction. It can be
// cut off anywhere and begun again.
func (t *transaction) undo(ctx context.Context) error {
	if err := t.noteIfBooted(ctx); err != nil {
		return err
	}
	if sight, err := t.agent.Look(ctx); err == nil {
		if t.runsMasked(sight) {
			return errMasked
		}
		if why := sight.hidden(); why != nil {
			return t.leftOpen(why) // it would be restarted in each run, and taken for dead
		}
	}
	err := t.undoSteps(ctx, false)
	t.startDependents(ctx)
	if err != nil {
		return err
	}
	return t.closeUndone(ctx)
}

// stepsBack are how the steps are undone, by their names.
func stepsBack() map[string]func(*undoing, context.Context) error {
	return map[string]func(*undoing, context.Context) error{
		"stop": (*undoing).bringBack, "backup": (*undoing).restoreDatabase, "links": (*undoing).revertLinks, "unit": (*undoing).restoreUnit,
		"database": (*undoing).checkDatabase, "watch": (*undoing).stopNew,
	}
}

// undoSteps is the one door back, on a host that is up and at boot. Whatever fails, each
// step is tried, and the agent comes last.
func (t *transaction) undoSteps(ctx context.Context, boot bool) error {
	u := &undoing{t: t, boot: boot}
	if u.t.j.Phase != restored {
		u.err = u.enterRollingBack()
	}
	for _, s := range slices.Backward(steps()) {
		if !u.due(s) {
			continue
		}
		err := u.undo(ctx, s)
		if u.boot && errors.Is(err, errTooSoon) {
			u.t.m.Host.Log.Warn("the next run checks whether the database is the old version's", "error", err)
			u.later, err = true, nil
		}
		u.err = errors.Join(u.err, err)
		if s.leaves != "" && u.err == nil && !u.later {
			u.err = u.t.j.enter(s.leaves)
		}
	}
	return u.err
}

func (u *undoing) undo(ctx context.Context, s step) error { return stepsBack()[s.name](u, ctx) }

// due reports whether a step is to be undone: each where nothing was restored yet
// and the journal can say that something is; at the end, and in every way out, the
// agent.
func (u *undoing) due(s step) bool {
	if s.back == "" || u.boot && s.live {
		return false
	}
	return u.t.j.Phase == rollingBack || s.name == steps()[0].name
}

// enterRollingBack does without the write where the disk has no room for it, or
// is broken, as long as the journal there says begun. That means the same, and
// links and unit may still have room to go back.
func (u *undoing) enterRollingBack() error {
	err := u.t.j.enter(rollingBack)
	if err == nil {
		return nil
	}
	if there, readErr := load(u.t.j.path); readErr != nil || there == nil || there.Phase != begun {
		return err
	}
	u.t.m.Host.Log.Warn("putting links and unit back all the same", "error", err)
	u.t.j.assume(rollingBack)
	return nil
}
