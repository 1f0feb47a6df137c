package transaction

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"teleport-update/backup"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// An uninstall gives the host its original agent back. If a version migrated the database since,
// that agent cannot read it: then the uninstall goes back as a downgrade does, with a backup that
// the original agent can read, or it is refused.

// planLeave decides what an uninstall does with the database: it stays, with a backup until the original agent is
// proven, or it is restored from a backup that the original agent can read. A *failure.Error says that neither is
// possible.
func (m *Machine) planLeave(ctx context.Context, c state.Config, program string) (state.Database, error) {
	d := state.Database{Plan: state.KeepDatabase}
	var err error
	if d.Path, err = m.Host.Database(); err != nil {
		return d, failure.Unchanged("find the agent's database: %w", err).To("repair the file")
	}
	sight, err := seeLeaves(ctx, m, d.Path)
	if err != nil {
		return d, err
	}
	if losesData(sight, d.Path) {
		d.Absent = true // each start is on a database of its own
		return d, nil
	}
	switch err := m.probe(ctx, d.Path); {
	case errors.Is(err, backup.ErrNoDatabase):
		d.Absent = true
		if c.Status.ActiveSchema != "" {
			return d, failure.Unchanged("the agent's database %s is missing, and version %s had one", d.Path, c.Active().Short()).
				To("mount its file system or put it back; if it was removed on purpose, start the agent, which makes an empty one, or %s",
					leaveAgent).Refused()
		}
		return d, nil
	case failure.Is[*backup.CorruptError](err):
		return d, nil // no agent of any version can read it
	case err != nil:
		return d, err
	}
	db, err := backup.Open(d.Path)
	if err != nil {
		return d, err
	}
	defer db.Close()
	now, err := db.Schema(ctx)
	if err != nil {
		return d, failure.Unchanged("see whether the agent that was here before can read the database: %w", err).To("%s", leaveAgent)
	}
	all, _, err := m.completeBackups(ctx)
	if err != nil {
		return d, err
	}
	if sight.State.Wanted() {
		d.Plan = state.BackupDatabase // the original agent is started on it, see keepInCase
	}
	first := slices.IndexFunc(all, func(b aBackup) bool { return filepath.Dir(b.dir) == m.Host.Paths.Original() })
	if first >= 0 && all[first].schema == now {
		return d, nil
	}
	if reads, err := checkLeaves(ctx, m, c, sight, program, now.Digest()); err != nil || reads {
		return d, err
	}
	if first < 0 {
		return d, m.checkReads(ctx, c, program, now, all)
	}
	return m.restoreFor(ctx, c, db, d, slices.DeleteFunc(all, func(b aBackup) bool { return b.schema != all[first].schema }))
}

// checkLeaves refuses to leave a database that is not the active version's, see databaseOwner: nobody knows which version can read it,
// and it would be kept as the active version's. It reports whether the original agent is the database's owner, which can read it.
func checkLeaves(ctx context.Context, m *Machine, c state.Config, sight Sight, program, now string) (reads bool, err error) {
	o, err := m.databaseOwner(ctx, sight, c)
	switch {
	case err != nil, !o.another, now == c.Status.ActiveSchema:
		return false, err
	case o.unlike:
		return false, failure.Unchanged("going back to the agent that was here before is refused: %s", unlikeTables(c)).
			To("%s; then run the command again", bringsBack(m, c)).Refused() // --keep-agent is refused, too
	case o.version == "" && sight.State == state.AgentUnknown:
		return false, nil // without systemd nobody knows more, see ownerByTables
	}
	if before, err := versions.ProgramVersion(ctx, program); err == nil && before == o.version {
		return true, nil
	}
	return false, failure.Unchanged("going back to the agent that was here before is refused: %s is in the place of version %s, and may "+
		"have changed the agent's database", namedVersion(o.version), c.Active().Short()).
		To("`teleport-update pin %s` takes that over, then run the command again", orVersion(o.version)).Refused()
}

// restoreFor plans to restore the newest valid backup of those that the original agent can read.
func (m *Machine) restoreFor(ctx context.Context, c state.Config, db *backup.Database, d state.Database,
	readable []aBackup) (state.Database, error) {
	maxAge := c.Spec.Backup.MaxAge.Std()
	if maxAge == 0 {
		maxAge = state.DefaultMaxAge
	}
	var why error
	for _, b := range readable {
		err := backup.Check(ctx, b.dir, backup.Want{Proxy: m.proxyOf(c.Spec), Version: b.meta.Version, Edition: b.meta.Edition, MaxAge: maxAge,
			Now: m.Now(), Live: db})
		if err == nil {
			d.Plan, d.Stop, d.Dir = state.RestoreDatabase, true, b.dir
			return d, nil
		}
		if !failure.Is[*backup.InvalidError](err) {
			return d, err
		}
		if why == nil {
			why = err
		}
	}
	return d, failure.Unchanged("version %s changed the agent's database %s, so the agent that was here before cannot run on it, "+
		"and going back is refused: %v",
		c.Spec.ActiveVersion, d.Path, why).To("%s", leaveAgent).Refused()
}

// checkReads refuses to give a database to an original agent that had none when the first version
// was enabled, unless it is known that this agent can read it: it is as new as the version that is
// left, or as one that was left with the same schema.
func (m *Machine) checkReads(ctx context.Context, c state.Config, program string, now backup.Schema, all []aBackup) error {
	before, err := versions.ProgramVersion(ctx, program)
	if err == nil {
		if version.Compare(before, c.Spec.ActiveVersion) >= 0 {
			return nil
		}
		for _, b := range all {
			if b.schema == now && b.meta.Version != "" && version.Compare(before, b.meta.Version) >= 0 {
				return nil
			}
		}
	}
	which := "version " + before
	if err != nil {
		which = fmt.Sprintf("whose version is not known (%v)", err)
	}
	return failure.Unchanged("the agent's database was made by a version that came with the updater, and the agent that was here before, "+
		"%s, may not be able to read it", which).
		To("%s", leaveAgent).Refused()
}

// canLeave checks, before an uninstall that restores the database begins, for obstacles to its end
// once the agent is stopped.
func (t *transaction) canLeave(ctx context.Context, c state.Config, sight Sight, d *state.Database) error {
	if err := t.holdDatabase(ctx, d); err != nil || t.db == nil {
		return err
	}
	if err := t.waitUnused(ctx, t.m.UserPatience); err != nil {
		return failure.Unchanged("the uninstall is refused: %w", err).To("end that process, or wait for its end").Refused()
	}
	if err := seeUsers(t.m, d.Path, "the uninstall"); err != nil {
		return err
	}
	p := &Preflight{Sight: sight, Database: *d, t: t, config: c, stage: Change | Now | begins, checks: preflightChecks(),
		asked: map[string]bool{}}
	if err := p.ask(ctx, func(check preflightCheck) bool { return check.leaves }); err != nil {
		return err
	}
	return t.db.CanRestore(d.Dir, sight.ended())
}

// mustRestore reports whether the database has yet to become one that the original agent can read.
func (t *transaction) mustRestore(ctx context.Context) (bool, error) {
	if d := t.j.Database; d.Plan != state.RestoreDatabase || d.Restored || d.Absent {
		return false, nil
	}
	db, err := t.database(ctx)
	if err != nil {
		return false, err
	}
	same, err := db.SameSchema(ctx, t.j.Database.Dir)
	if err == nil && same {
		return false, t.j.journalRestored() // by a run that was cut off before it noted that
	}
	if err != nil && t.j.Database.Taken && !failure.Is[*backup.InvalidError](err) {
		// A restore that was cut off left a database that cannot be read. A second restore ends well.
		t.m.Host.Log.Info("the agent's database is restored once more", "error", err)
		return true, nil
	}
	return err == nil, err
}

// goBack makes links, unit and database what they are to be without the updater. If that fails once
// the agent is stopped, the agent runs again as the version that it was.
func (t *transaction) goBack(ctx context.Context, c state.Config) error {
	must, err := t.mustRestore(ctx)
	if err != nil {
		return errors.Join(err, t.stayOnVersion(ctx, c))
	}
	if !must {
		if err := keepInCase(ctx, t, c, false); err != nil {
			return err
		}
		return t.releaseFiles(ctx, c)
	}
	if err := checkEnds(ctx, t.m, c, t.asked()); err != nil { // since it was begun
		return errors.Join(err, t.stayOnVersion(ctx, c))
	}
	if err := t.waitUnused(ctx, t.m.UserPatience); err != nil {
		return err
	}
	sight, err := t.agent.Look(ctx)
	if err != nil {
		return err
	}
	if !t.stoppedHere(ctx) {
		if err := t.j.journalFound(sight.State, t.m.thisBoot(ctx, t.agent)); err != nil {
			return err
		}
	}
	if err := t.agent.Stop(ctx, inOrder); err != nil {
		return errors.Join(fmt.Errorf("stop the agent: %w", err), t.stayOnVersion(ctx, c))
	}
	err = t.keepToday(ctx, c)
	if errors.Is(err, backup.ErrNoDatabase) && journalIfRemoved(ctx, t) == nil && t.j.Database.Absent {
		return t.releaseFiles(ctx, c) // it went with the stop
	}
	if err == nil {
		err = t.releaseFiles(ctx, c)
	}
	if err == nil {
		err = t.restoreBefore(ctx)
	}
	if err != nil {
		return errors.Join(err, t.stayOnVersion(ctx, c))
	}
	return nil
}

// keepToday backs up the database that is about to be exchanged, in a place that outlives the updater.
func (t *transaction) keepToday(ctx context.Context, c state.Config) error {
	if err := t.waitUnused(ctx, afterStop); err != nil {
		return err
	}
	db, err := t.database(ctx)
	if err != nil {
		return err
	}
	if _, err := db.Schema(ctx); err != nil && t.j.Database.Taken {
		return nil // the database is half restored now
	}
	if t.j.Database.Taken {
		// The backup is written over, with what the agent wrote since. A boot in between exchanges no database with half a backup.
		if err := t.j.journalTodayUnkept(); err != nil {
			return err
		}
	}
	return takeToday(ctx, t, c, db, true)
}

func (t *transaction) restoreBefore(ctx context.Context) error {
	db, err := t.database(ctx)
	if err != nil {
		return err
	}
	t.m.Host.Log.Info("restoring the database that the agent of before can read", "from", t.j.Database.Dir)
	if err := db.Restore(ctx, t.j.Database.Dir); err != nil {
		return err
	}
	return t.j.journalRestored()
}

// stayOnVersion makes the host run the version that it was on, on that version's database, until
// the next run goes on with the uninstall.
func (t *transaction) stayOnVersion(ctx context.Context, c state.Config) error {
	if must, err := t.mustRestore(ctx); err == nil && !must {
		return nil // the original agent can read the database
	}
	err := t.placeActive(c)
	if err == nil {
		err = t.agent.DaemonReload(ctx)
	}
	if t.stoppedHere(ctx) {
		err = errors.Join(err, t.agent.Start(ctx))
	}
	return wrap(err, "keep version %s: %w", c.Spec.ActiveVersion)
}

func (t *transaction) placeActive(c state.Config) error {
	tree, err := t.m.toKeep(c)
	if err != nil {
		return err
	}
	links, err := t.m.Host.PlanLinks(tree)
	if err != nil {
		return err
	}
	return t.m.Host.Place(tree, links)
}

// stoppedHere reports whether the agent ran when this uninstall began, and was stopped by it: then
// it is to run in every way out.
func (t *transaction) stoppedHere(ctx context.Context) bool {
	return t.j.Database.Plan == state.RestoreDatabase && t.j.Agent.State.Wanted() && !t.bootedSince(ctx)
}

// goBackAtBoot is goBack before the agent starts. Work that cannot be done yet is left to the first
// run of the timer, with today's version whole.
func (t *transaction) goBackAtBoot(ctx context.Context, c state.Config) error {
	must, err := t.mustRestore(ctx)
	if err == nil && !must {
		if err = keepInCase(ctx, t, c, true); err == nil {
			return t.releaseFiles(ctx, c)
		}
	}
	if err == nil && t.j.Database.Taken {
		err = t.releaseFiles(ctx, c)
		if err == nil {
			err = t.restoreBefore(ctx)
		}
		if err == nil {
			return nil
		}
	}
	t.m.Host.Log.Warn("the uninstall goes on with the first run of the timer", "error", err)
	return t.placeActive(c)
}

const leaveAgent = "`teleport-update uninstall --keep-agent` leaves the agent of today as plain files"

// seeLeaves looks at the agent. It refuses to leave an agent that runs and would not start again as the original one, or would
// start on another database.
func seeLeaves(ctx context.Context, m *Machine, database string) (Sight, error) {
	agent, err := m.Agent(ctx)
	if err != nil {
		return Sight{}, err
	}
	defer agent.Close()
	sight, err := agent.Look(ctx)
	if err != nil || !sight.Running() {
		return sight, err
	}
	if err := sight.hidden(); err != nil {
		return sight, failure.Unchanged("the agent that was here before could not be watched: %w", err).To("run the command again then").Refused()
	}
	why := m.checkStartsAgain(ctx, agent, sight, database)
	if why == nil {
		why = checkNeeds(ctx, m, agent, sight)
	}
	if why != nil {
		err = failure.Unchanged("the agent runs, and would not start again after the uninstall: %w", why).
			To("correct that first, or %s", leaveAgent).Refused()
		return sight, err
	}
	if err := m.Host.CheckUnit(sight.Unit); err != nil { // it would be started instead of the original unit
		return sight, err
	}
	if why = restartable(ctx, m, agent, sight); why != nil {
		err = failure.Unchanged("the agent runs, and could not be restarted as the one that was here before: %w", why).
			To("correct that first, or %s", leaveAgent).Refused()
	}
	return sight, err
}

// restartable returns what keeps systemd from restarting an agent that runs: it would refuse the stop, or the start would wait
// for a job that is ahead while the agent is down.
func restartable(ctx context.Context, m *Machine, agent Agent, sight Sight) error {
	if err := sight.frozen(); err != nil {
		return err
	}
	if err := m.Host.CheckCanStop(sight.Unit); err != nil {
		return err
	}
	by, err := agent.Blockers(ctx, sight)
	if err == nil && len(by) > 0 {
		err = &systemd.BlockedError{Unit: m.Host.Paths.AgentUnit(), By: by}
	}
	return err
}
