package transaction

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"teleport-update/backup"
	"teleport-update/health"
	"teleport-update/health/settings"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
	"teleport-update/internal/space"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// An uninstall removes today's version once the original agent is proven, as a change of version does. If that agent is not
// healthy, the uninstall is called off: today's version, with its database, is all that is known to run on this host.

// originalFailsError means that the original agent is not healthy.
type originalFailsError struct{ why error }

func (e *originalFailsError) Error() string {
	return "the agent that was here before is not healthy: " + e.why.Error()
}

func (e *originalFailsError) Unwrap() error { return e.why }

// proveOriginal restarts the agent as the original one, and watches it long enough to see it fail again and again.
func (t *transaction) proveOriginal(ctx context.Context, sight Sight) error {
	tables, _ := t.m.Schema(ctx) // unreadable: the agent may have been stopped in the middle of a write, and no other version ran
	t.m.Host.Log.Info("restarting the agent as the one that was here before", "database", string(t.j.Database.Plan))
	w := health.Watch{Settings: settings.Settings{Window: state.Duration(health.MinWindow(sight.Unit))}}
	_, err := t.agent.Prove(ctx, health.Restart, w)
	unhealthy, is := errors.AsType[*health.UnhealthyError](err)
	switch {
	case err == nil:
		t.m.Host.Log.Info("the agent that was here before is healthy")
		return nil
	case !is:
		return fmt.Errorf("see the agent that was here before run: %w", err)
	case unhealthy.Stopped:
		t.m.Host.Log.Info("the agent stays down: somebody stopped it while it was being watched")
		if err := t.j.setAgent(state.AgentStopped); err != nil {
			return err
		}
		return t.j.flush()
	case t.j.Agent.State == state.AgentFailing:
		t.m.Host.Log.Warn("the agent that was here before fails, as the agent did before the uninstall", "error", err)
		return nil
	}
	now, schemaErr := t.m.Schema(ctx)
	// There is a backup, or nothing to keep, or nobody knows. Otherwise somebody started the agent after it had been seen to be down.
	kept := t.j.Database.Taken || t.j.Database.Absent || tables == "" || schemaErr != nil
	if !kept && now != tables {
		return fmt.Errorf("the agent that was here before is not healthy, and has changed the tables of the database, so it stays in its "+
			"place: %w", err)
	}
	return &originalFailsError{err}
}

// orCallOff calls an uninstall off if its original agent fails. Without a whole version to go back to, the uninstall goes on.
func (t *transaction) orCallOff(ctx context.Context, c state.Config, err error) error {
	if !failure.Is[*originalFailsError](err) {
		return err
	}
	if tree, keepErr := t.m.toKeep(c); keepErr != nil || !startable(TreeOf(tree)) {
		t.m.Host.Log.Warn("the uninstall goes on, for there is no whole version to go back to", "error", err)
		return nil
	}
	// First: a run after a cut has to bring today's version back, too.
	if err := t.j.journalCalledOff(err.Error()); err != nil {
		return err
	}
	return t.callOff(ctx, c)
}

func (t *transaction) isCalledOff() bool { return t.j.Verdict.Reason != "" }

// callOff brings today's version back, and closes the journal. It can be cut off anywhere and begun again. Its error says why
// there is no uninstall.
func (t *transaction) callOff(ctx context.Context, c state.Config) error {
	t.m.Host.Log.Error("the uninstall is called off: the version of today comes back", "version", c.Active().Short(),
		"reason", t.j.Verdict.Reason)
	if err := t.bringTodayBack(ctx, c); err != nil {
		return fmt.Errorf("%s; bring version %s back: %w", t.j.Verdict.Reason, c.Active().Short(), err)
	}
	t.startDependents(ctx)
	_, err := t.m.Host.ReportToCluster(!c.Spec.NoClusterReport)
	t.m.warn(err, "the agent may not report its updates to its cluster")
	if err := t.closeCalledOff(); err != nil {
		return err
	}
	off := failure.Unchanged("%s", t.j.Verdict.Reason).To("repair the agent that was here before and run the command again, or %s", leaveAgent)
	off.State = failure.Aftermath(fmt.Sprintf("the uninstall is called off, and version %s is in its place again", c.Active().Short()))
	return off.Refused()
}

// bringTodayBack makes the host run today's version. If it runs already, as after a cut, it is left in peace.
func (t *transaction) bringTodayBack(ctx context.Context, c state.Config) error {
	tree, err := t.m.toKeep(c)
	if err != nil {
		return err
	}
	sight, err := t.agent.Look(ctx)
	if err != nil {
		return err
	}
	if serves := sight.runsFrom(tree.ProgramsDir()) && !t.j.Database.Restored; serves {
		return errors.Join(t.placeAfterPutBack(c), t.agent.DaemonReload(ctx))
	}
	wanted := !t.bootedSince(ctx) || sight.State.Wanted()
	if err := t.agent.Stop(ctx, atOnce); err != nil {
		return fmt.Errorf("stop the agent: %w", err)
	}
	if err = t.journalRemovedData(ctx); err == nil { // with the stop
		err = t.placeToday(ctx, c)
	}
	err = errors.Join(err, t.agent.DaemonReload(ctx))
	if wanted { // in every way out: some agent beats none
		err = errors.Join(err, t.agent.Start(ctx))
	}
	return err
}

// placeToday puts today's links, unit and database in their places while the agent is down. If the database cannot go back, neither do
// the links.
func (t *transaction) placeToday(ctx context.Context, c state.Config) error {
	if !t.j.Database.Taken {
		return t.placeAfterPutBack(c)
	}
	if err := t.waitUnused(ctx, afterStop); err != nil {
		return err
	}
	db, err := t.database(ctx)
	if err != nil {
		return err
	}
	if !t.j.Database.Restored {
		if same, err := db.SameSchema(ctx, t.asked().KeepsIn); err == nil && same {
			return t.placeAfterPutBack(c) // with what the original agent wrote
		}
	}
	if err := db.CanRestore(t.asked().KeepsIn, nil); err != nil {
		return err
	}
	if err := t.placeAfterPutBack(c); err != nil {
		return err
	}
	t.m.Host.Log.Info("restoring the database of the version of today", "from", t.asked().KeepsIn)
	if err := db.Restore(ctx, t.asked().KeepsIn); err != nil {
		return err
	}
	return t.j.journalTodayBack()
}

// placeAfterPutBack places today's version again.
func (t *transaction) placeAfterPutBack(c state.Config) error {
	if err := t.placeActive(c); err != nil {
		return err
	}
	return host.UnplaceUnit(t.m.Host)
}

// closeCalledOff ends a called-off uninstall: updates go on if they did before.
func (t *transaction) closeCalledOff() error {
	now, _, err := t.config()
	if err != nil {
		return err
	}
	found, err := t.found()
	if err != nil {
		return err
	}
	now.Spec.Enabled = found.Spec.Enabled
	if err := now.Save(t.m.Host.Paths.Config()); err != nil {
		return err
	}
	if kept := t.asked().KeepsIn; kept != "" && t.j.Database.Taken && host.Exists(kept) {
		t.m.warn(dropKept(t), "a copy of the database of today stays", "folder", kept)
	}
	return t.close()
}

// checkEnds refuses an uninstall that could begin but not end, for example on a read-only or full file system: no other command
// works while it is open.
func checkEnds(ctx context.Context, m *Machine, c state.Config, u state.Uninstall) error {
	copies, units, err := changesOf(ctx, m, c, u)
	if err == nil {
		err = host.CanLeave(m.Host, copies, units)
	}
	if err == nil {
		return nil
	}
	fix := "correct that"
	if path, is := errors.AsType[*os.PathError](err); is {
		fix = fmt.Sprintf("make %s writable (`findmnt -T %[1]s` and `lsattr -d %[1]s` show what is in the way)", path.Path)
	}
	if failure.Is[*space.Error](err) {
		fix = "make room there for programs that take the places of links"
	}
	return failure.Unchanged("the uninstall is refused, for it could not be ended: %w", err).
		To("%s; then run the command again", fix).Refused()
}

// changesOf returns the files that take the places of links, and the files of units that change.
func changesOf(ctx context.Context, m *Machine, c state.Config, u state.Uninstall) (copies map[string]string, units []string, err error) {
	if u.KeepAgent {
		tree, err := m.toKeep(c)
		if err != nil {
			return nil, nil, err
		}
		copies, err = host.PlainCopies(m.Host, tree)
		return copies, nil, err
	}
	o, err := m.Host.Originals()
	if err == nil {
		err = m.Host.PlainUnit(ctx, &o)
	}
	return o.Copies(m.Host), o.Units(m.Host), err
}

// readUnit makes systemd read a unit that changed since: the checks before the agent is touched have to be about the unit that
// starts it afterwards.
func readUnit(ctx context.Context, m *Machine, agent Agent) error {
	sight, err := agent.Look(ctx)
	if err != nil || !m.Host.AgentUnit().Unread(sight.Unit) {
		return err
	}
	m.Host.Log.Info("the agent's unit changed since systemd read it: it reads the files again", "unit", m.Host.Paths.AgentUnit())
	if err := agent.DaemonReload(ctx); err != nil {
		return failure.Unchanged("have systemd read the agent's unit, which changed: %w", err)
	}
	return nil
}

// leadBack makes an undoing lead the agent's link to the version that runs, on whose database the agent is started, if
// yesterday's records and links came back. If somebody took link or unit away, the undoing brings them back with the version.
func leadBack(h *host.Host, j *state.Journal, sight Sight, from versions.Tree) (err error) {
	runs, apart := runsApart(h, sight, from.Release)
	if !apart {
		runs = from
	}
	if apart || !host.Exists(filepath.Join(h.Paths.LinkDir, host.AgentName)) {
		j.Links = host.LedBack(j.Links, h.Paths.LinkDir, runs)
	}
	if host.UnitLost(j.Unit) {
		j.Unit, err = h.UnitOf(runs)
	}
	return err
}

// runsApart returns the version of the store that serves, if it is not the active one: yesterday's records came back under it.
func runsApart(h *host.Host, sight Sight, active version.Release) (runs versions.Tree, ok bool) {
	r, apart := servesApart(h, sight, active)
	if !apart {
		return runs, false
	}
	runs, ok, err := h.Store.Lookup(r)
	return runs, ok && err == nil
}

// servesApart is runsApart, also for a version that is not whole on disk any more.
func servesApart(h *host.Host, sight Sight, active version.Release) (serves version.Release, apart bool) {
	for _, p := range sight.serving() {
		r, ours := h.Store.ReleaseOf(p.Exe)
		switch {
		case !ours:
		case r.Version == active.Version && sameEdition(r, active):
			return r, false
		case !apart:
			serves, apart = r, true
		}
	}
	return serves, apart
}

// runningLinked refuses a change that could not be undone: a version other than the active one runs, and an undoing would lead the
// agent's link to another program, since the link is a file of its own, or the version that runs is not whole on disk.
func runningLinked(h *host.Host, sight Sight, active version.Release) error {
	r, apart := servesApart(h, sight, active)
	if !apart {
		return nil
	}
	link := filepath.Join(h.Paths.LinkDir, host.AgentName)
	program, _ := filepath.EvalSymlinks(link)
	if led, ours := h.Store.ReleaseOf(program); ours && led.Version == r.Version && sameEdition(led, r) {
		return nil
	}
	const why = "if the change had to be undone, the agent would not start again on its database"
	runs, whole := runsApart(h, sight, active)
	if !whole {
		return failure.Refuse("the agent runs version %s, which is not whole on disk, and %s leads to another program: %s; "+
			"`teleport-update pin %s` takes over the version that runs, or set the cluster to it", r.Short(), link, why, r.Version)
	}
	info, err := os.Lstat(link)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	if same, err := host.SameContent(runs.Binary(host.AgentName), link); same || err != nil {
		return err
	}
	return failure.Refuse("%s is a program of its own, and the agent runs version %s: %s; move the file away, and run the command again", link,
		r.Short(), why)
}

// An uninstall that leaves the database to the original agent has a backup of it until that agent is proven.

// keepInCase backs up the database that stays, before the original agent starts on it: that agent may change the tables, and not be
// healthy. If an uninstall goes on and the tables are unchanged, the backup is taken again, with what was written since.
func keepInCase(ctx context.Context, t *transaction, c state.Config, atBoot bool) error {
	if t.j.Database.Plan != state.BackupDatabase || t.asked().Proven {
		return nil
	}
	db, err := t.database(ctx)
	if err == nil && t.j.Database.Taken {
		if same, err := db.SameSchema(ctx, t.asked().KeepsIn); err != nil || !same {
			return nil
		}
	}
	if err == nil {
		err = takeToday(ctx, t, c, db, false)
	}
	gone := errors.Is(err, backup.ErrNoDatabase) && !atBoot // else its file system may be mounted later
	if gone || failure.Is[*backup.CorruptError](err) {
		t.m.Host.Log.Warn("the agent's database is not backed up", "error", err)
		return nil // today's version could not use it either
	}
	return wrap(err, "back up the agent's database before the agent that was here before starts on it: %w")
}

// takeToday backs up today's database, in a place that outlives the updater.
func takeToday(ctx context.Context, t *transaction, c state.Config, db *backup.Database, stopped bool) error {
	active := c.Active()
	meta := backup.Meta{Proxy: t.m.proxyOf(c.Spec), Version: active.Version, Edition: active.Edition, Created: t.m.Now()}
	if _, err := db.Take(ctx, backup.TakeRequest{Dir: t.asked().KeepsIn, Meta: meta, Stopped: stopped}); err != nil {
		return err
	}
	return t.j.journalTodayKept()
}

// dropNeedless removes the backup of the database that stays. It keeps the backup if the original agent has changed the tables: then
// today's version could start with nothing else.
func dropNeedless(ctx context.Context, t *transaction) error {
	d := t.j.Database
	if d.Plan != state.BackupDatabase || !d.Taken || !host.Exists(t.asked().KeepsIn) {
		return nil
	}
	db, err := t.database(ctx)
	if err != nil {
		return err
	}
	switch same, err := db.SameSchema(ctx, t.asked().KeepsIn); {
	case err != nil:
		return err
	case !same:
		t.m.Host.Log.Info("the agent that was here before has changed the tables of its database: a backup of before is kept",
			"backup", t.asked().KeepsIn)
		return nil
	}
	return dropKept(t)
}

// dropKept removes the backup that this uninstall took.
func dropKept(t *transaction) error {
	err := durable.RemoveAll(t.asked().KeepsIn)
	_ = durable.RemoveEmpty(t.m.Host.Paths.KeptBackups()) // an earlier uninstall may have left others there
	return err
}
