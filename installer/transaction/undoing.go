package transaction

import (
	"context"
	"errors"
	"fmt"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
)

// undoing is a transaction on its way back.
type undoing struct {
	t    *transaction
	boot bool  // files only: the agent has not been started yet
	err  error // all that failed
	// kept: the database could not go back, so the new version stays whole.
	kept bool
	// later: whether all is back is for the next run to see.
	later bool
	// untouched: the process of before served on when this began, and was left alone.
	untouched bool
}

// stopAgent stops the agent for what is to be put back; at boot none was started yet. An
// undoing that was begun before may have brought the old version back already, which goes
// on then.
func (u *undoing) stopAgent(ctx context.Context) error {
	if u.boot {
		return nil
	}
	sight, err := u.t.agent.Look(ctx)
	if back := u.t.j.Database.Restored || !u.t.j.Database.Taken && host.AgentLinkIsBack(u.t.j.Links); err == nil && back {
		if !sight.runsFrom(u.t.j.To.ProgramsDir()) {
			return nil
		}
		if u.t.j.Database.Restored {
			err = u.t.j.setRestored(false) // somebody has started it since
		}
	}
	if err == nil {
		err = u.t.noteIfStarted(sight)
	}
	if err == nil {
		err = u.t.agent.Stop(ctx, atOnce)
	}
	if err != nil {
		u.kept = true // for the database cannot go back under it
		return fmt.Errorf("stop the agent: %w", err)
	}
	return nil
}

// keepNew is placeNew by an undoing, which moves nothing else from then on.
func (u *undoing) keepNew(ctx context.Context) error {
	u.kept = true
	return u.t.placeNew(ctx)
}

// needNotGoBack reports whether the old version can go on with the database that is
// there.
func (u *undoing) needNotGoBack(ctx context.Context) bool {
	same, err := u.sameSchema(ctx)
	return err == nil && same && !u.exchanged()
}

func (u *undoing) sameSchema(ctx context.Context) (same bool, err error) {
	db, err := u.t.database(ctx)
	if err != nil {
		return false, err
	}
	err = u.t.withBackup(func(dir string) (err error) {
		same, err = db.SameSchema(ctx, dir)
		return err
	})
	return same, err
}

// cannotGoBack leaves the new version whole, and has the record say why.
func (u *undoing) cannotGoBack(ctx context.Context, err error) error {
	return errors.Join(err, u.t.j.noteInTheWay(err.Error()), u.keepNew(ctx))
}

// exchanged reports whether the database may be that of the version that failed, and
// not the old one's with what was done to it: then it has to go back even where the
// old version could read it.
func (u *undoing) exchanged() bool {
	return u.t.j.Database.Plan == state.RestoreDatabase && u.t.j.reached("reload")
}
