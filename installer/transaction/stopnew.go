package transaction

import "context"

// stopsMasked reports whether an undoing that is about to stop the agent would leave none:
// it runs the new version, or yet the old one, on a database with which it can go on, and
// its unit is masked.
func (u *undoing) stopsMasked(ctx context.Context) bool {
	s, err := u.agent.Look(ctx)
	return err == nil && s.LoadState == "masked" && s.Running() &&
		(s.runsFrom(u.j.To.ProgramsDir()) || !u.j.Database.Taken || u.needNotGoBack(ctx))
}

// stopNew stops the version that failed, for what is to be put back. One that the
// agent was never told of runs only where somebody else restarted it by the new
// links, or is doing so now, and an old process that never stopped serving is left in peace where it
// can be.
func (u *undoing) stopNew(ctx context.Context) error {
	if err := u.journalRemovedData(ctx); err != nil {
		return err
	}
	switch {
	case !u.j.reached("reload"):
		sight, err := u.agent.Look(ctx)
		if err != nil || !sight.runsFrom(u.j.To.ProgramsDir()) && !sight.begins() {
			return err
		}
	case u.j.Watch.OldServes && !u.j.Database.Taken:
		return nil
	case u.j.Watch.OldServes:
		if u.sameUnderOld(ctx) {
			return nil
		}
	}
	if err := u.lookFirst(ctx); err != nil {
		return err
	}
	if u.untouched = u.oldIsUntouched(ctx); u.untouched {
		return nil
	}
	if u.stopsMasked(ctx) { // somebody may have masked it since the undoing began
		u.kept = true
		return maskedError(u.unit)
	}
	if err := u.recordOldStop(); err != nil {
		return err
	}
	return u.stopAgent(ctx)
}
