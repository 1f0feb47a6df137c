package transaction

import (
	"context"

	"teleport-update/installer/state"
)

// sameUnderOld reports whether the old process, which never stopped, is left in
// peace, with the rows that it wrote since the backup: if nothing it cannot read
// was done to its database. Else it is stopped, and that is noted first: once the
// database is restored nothing tells any more that the agent was stopped for it.
func (u *undoing) sameUnderOld(ctx context.Context) (bool, error) {
	same, err := u.sameSchema(ctx)
	switch {
	case err == nil && same:
		return true, nil
	case err != nil:
		// A stop would be the end of the agent then, and whether anything was changed is not known.
		if cannot := u.startsAgain(ctx); cannot != nil {
			u.t.m.Host.Log.Warn("it cannot be seen whether the version that failed changed the database under the old one; the agent serves on, "+
				"for it would not start again", "error", err, "start", cannot)
			return true, nil
		}
		u.t.m.Host.Log.Warn("the version that failed may have changed the database under the old one; the agent is restarted on its own database",
			"error", err)
	default:
		u.t.m.Host.Log.Warn("the version that failed changed the database under the old one; the agent is restarted on its own database")
	}
	return false, u.t.j.noteOldStopped()
}

// startsAgain says why the process of before, which serves, would not start again as its unit is now; nil if it would,
// or if that cannot be seen.
func (u *undoing) startsAgain(ctx context.Context) error {
	sight, err := u.t.agent.Look(ctx)
	if err != nil || !sight.Running() {
		return nil
	}
	return u.t.m.checkStartsAgain(ctx, sight, u.t.j.Database.Path)
}

// oldIsUntouched reports whether the process of before serves on, and no other version has
// done anything to its database: the updater was cut off before the reload brought a
// process. A process that was relieved, and sees its sessions to their end, is not in
// the PID file any more.
func (u *undoing) oldIsUntouched(ctx context.Context) bool {
	backedUp := u.t.j.Database.Taken && !u.t.j.Database.Restored
	if u.boot || !backedUp || !u.t.j.reached("reload") || u.exchanged() {
		return false
	}
	sight, err := u.t.agent.Look(ctx)
	was := u.t.j.Agent
	switch {
	case err != nil || sight.State != state.AgentRunning || sight.JobPending:
		return false
	case sight.MainPID == 0 || sight.MainPID != was.MainPID || sight.InvocationID != was.InvocationID:
		return false
	case sight.PIDFile != "" && sight.Serving.PID != int(sight.MainPID), sight.anyFrom(u.t.j.To.ProgramsDir()):
		return false
	}
	return u.needNotGoBack(ctx)
}
