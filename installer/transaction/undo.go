package transaction

import (
	"context"
	"errors"
	"slices"
)

// stepsBack are how the steps are undone, by their names.
func stepsBack() map[string]func(*undoing, context.Context) error {
	return map[string]func(*undoing, context.Context) error{
		"stop": (*undoing).bringBack, "backup": (*undoing).restoreDatabase, "links": (*undoing).revertLinks, "unit": (*undoing).restoreUnit,
		"database": (*undoing).checkDatabase, "watch": (*undoing).stopNew,
	}
}

// undoSteps is the one door back, on a host that is up and at boot. Whatever fails, each
// step is tried, and the agent comes last.
func (u *undoing) undoSteps(ctx context.Context) error {
	if u.j.Phase != restored {
		u.err = u.enterRollingBack()
	}
	for _, s := range slices.Backward(steps()) {
		if !u.due(s) {
			continue
		}
		err := u.undo(ctx, s)
		if u.boot && errors.Is(err, errTooSoon) {
			u.log.Warn("the next run checks whether the database is the old version's", "error", err)
			u.later, err = true, nil
		}
		u.err = errors.Join(u.err, err)
		if s.leaves != "" && u.err == nil && !u.later {
			u.err = u.j.enter(s.leaves)
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
	return u.j.Phase == rollingBack || s.name == steps()[0].name
}

// enterRollingBack does without the write where the disk has no room for it, or
// is broken, as long as the journal there says begun. That means the same, and
// links and unit may still have room to go back.
func (u *undoing) enterRollingBack() error {
	err := u.j.enter(rollingBack)
	if err == nil {
		return nil
	}
	if there, readErr := load(u.j.path); readErr != nil || there == nil || there.Phase != begun {
		return err
	}
	u.log.Warn("putting links and unit back all the same", "error", err)
	u.j.assume(rollingBack)
	return nil
}
