package transaction

import (
	"context"

	"teleport-update/installer/state"
)

// sameUnderOld reports whether the old process, which never stopped, is left in
// peace, with the rows that it wrote since the backup: if nothing it cannot read
// was done to its database.
func (u *undoing) sameUnderOld(ctx context.Context) bool {
	same, err := u.sameSchema(ctx)
	switch {
	case err == nil && same:
		return true
	case err != nil:
		u.log.Warn("the version that failed may have changed the database under the old one", "error", err)
	default:
		u.log.Warn("the version that failed changed the database under the old one")
	}
	return false
}

// recordOldStop is for the moment before the process of before, which serves on, is stopped for its database. The record has it
// first: once the database is restored nothing tells any more that the agent was stopped for it.
func (u *undoing) recordOldStop() error {
	if !u.j.Watch.OldServes {
		return nil
	}
	u.log.Warn("the agent is restarted on its own database")
	return u.j.journalOldStopped()
}

// oldIsUntouched reports whether the process of before serves on, and no other version has
// done anything to its database: the updater was cut off before the reload brought a
// process. A process that was relieved, and sees its sessions to their end, is not in
// the PID file any more.
func (u *undoing) oldIsUntouched(ctx context.Context) bool {
	backedUp := u.j.Database.Taken && !u.j.Database.Restored
	if u.boot || !backedUp || !u.j.reached("reload") || u.exchanged() {
		return false
	}
	sight, err := u.agent.Look(ctx)
	was := u.j.Agent
	switch {
	case err != nil || sight.State != state.AgentRunning || sight.JobPending:
		return false
	case sight.MainPID == 0 || sight.MainPID != was.MainPID || sight.InvocationID != was.InvocationID:
		return false
	case sight.PIDFile != "" && sight.Serving.PID != int(sight.MainPID), sight.anyFrom(u.j.To.ProgramsDir()):
		return false
	}
	return u.needNotGoBack(ctx)
}
