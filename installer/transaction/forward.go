package transaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"teleport-update/backup"
	"teleport-update/health"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
)

// transact is a transaction from lock to unlock.
func (m *Machine) transact(ctx context.Context, r Request) error {
	c, unlock, err := m.Open(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	agent, err := m.Agent(ctx)
	if err != nil {
		return err
	}
	t := &transaction{m: m, agent: agent, took: map[string]time.Duration{}}
	defer t.letGo()
	req, ok, err := m.check(c, r)
	if err != nil || !ok {
		return err
	}
	return (&advancing{t, req}).run(ctx)
}

// run does it all: prepare, the steps, commit; or, from the journal on, undo.
func (t *advancing) run(ctx context.Context) error {
	if err := t.prepare(ctx); err != nil {
		return t.recordRefused(err)
	}
	t.t.m.Host.Log.Info("switching", "from", cmp.Or(t.req.config.Spec.ActiveVersion, "none"), "to", t.req.To.String(),
		"database", string(t.t.j.Database.Plan))
	isProven, err := t.forward(ctx)
	switch {
	case err == nil:
		return nil
	case isProven:
		// From here there is only forward: the next run commits it.
		return &failure.NeedsPersonError{Err: fmt.Errorf("version %s is healthy, but could not be committed: %w; "+
			"the next run tries again, see `teleport-update status`", t.req.To, err)}
	case errors.Is(err, health.ErrHostStopping):
		// Says nothing about the version. The journal stays; the next boot
		// puts the old version back before the agent starts.
		t.t.m.Host.Log.Warn("the host is shutting down in the middle of the transaction; it is undone at the next boot",
			"version", t.req.To.String())
		return errNeedsBoot
	}
	return t.abandon(ctx, err)
}

// stepsForward are how the steps are done, by their names.
func stepsForward() map[string]func(*advancing, context.Context) error {
	return map[string]func(*advancing, context.Context) error{
		"stop": (*advancing).stop, "backup": (*advancing).backUp, "links": (*advancing).relink, "unit": (*advancing).placeUnit,
		"reload": (*advancing).reload, "database": (*advancing).exchangeDatabase, "watch": (*advancing).watch,
	}
}

// forward takes the steps and commits. An error means undo, unless isProven
// says that the version is.
func (t *advancing) forward(ctx context.Context) (isProven bool, err error) {
	for _, s := range steps() {
		began := t.t.m.Now()
		err := stepsForward()[s.name](t, ctx)
		t.note(s, t.t.m.Now().Sub(began))
		if err != nil {
			return false, err
		}
		isProven = s.enters == proven
		if err := t.t.advance(s); err != nil {
			return isProven, err
		}
	}
	return isProven, t.t.finish(context.WithoutCancel(ctx))
}

// note adds what a step took to what the history tells of a transaction: the agent is down
// from its stop to the watch, which begins with its start.
func (t *advancing) note(s step, d time.Duration) {
	part := "downtime"
	switch {
	case s.name == "backup" || s.name == "watch":
		part = s.name
	case !t.t.j.Database.Stop || !t.t.j.Agent.State.Wanted():
		return
	}
	t.t.took[part] += d
}

// stop stops the agent, where the plan for the database says so.
func (t *advancing) stop(ctx context.Context) error {
	if !t.t.j.Database.Stop || !t.t.j.Agent.State.Wanted() {
		return nil
	}
	if err := t.t.canStart(ctx); err != nil {
		return err
	}
	return wrap(t.t.agent.Stop(ctx, inOrder), "stop the agent: %w")
}

func (t *advancing) backUp(ctx context.Context) error {
	switch d := t.t.j.Database; {
	case d.Skipped:
		t.t.m.Host.Log.Warn("the agent's database is not backed up, as asked: a rollback cannot bring it back", "database", d.Path)
		return backup.Outdate(d.Dir)
	case d.Damaged && d.Plan == state.RestoreDatabase:
		db, err := t.t.database(ctx)
		if err != nil {
			return err
		}
		to, err := db.SetAside(ctx, t.t.m.Now())
		if err != nil {
			return err
		}
		t.t.m.Host.Log.Warn("the agent's database is damaged and cannot be backed up; it is kept aside as it is", "database", d.Path, "aside", to)
		return t.t.j.noteDatabaseAside(filepath.Base(to))
	case d.Damaged:
		t.t.m.Host.Log.Warn("the agent's database is damaged and cannot be backed up; the new version gets it as it is, as asked",
			"database", d.Path)
		return nil
	case d.Plan == state.KeepDatabase:
		return nil
	}
	from := t.req.config.Active()
	db, err := t.t.database(ctx)
	if err != nil {
		return err
	}
	stopped := t.t.j.Database.Stop || t.t.j.Agent.State == state.AgentStopped
	if stopped {
		if err := t.t.waitUnused(ctx, afterStop); err != nil {
			return cannotBegin(err, t.req.Request, "the transaction is undone")
		}
	}
	if t.t.j.Database.Foreign {
		from = version.Release{}
	}
	t.t.m.Host.Log.Info("backing up the agent's database", "to", t.t.j.Database.Dir)
	sum, err := db.Take(ctx, backup.TakeRequest{
		Dir:     t.t.j.Database.Dir,
		Meta:    backup.Meta{Proxy: t.proxy(), Version: from.Version, Edition: from.Edition, Created: t.t.m.Now()},
		Stopped: stopped,
		Progress: func(done, total int64) {
			t.t.m.Host.Log.Info("backing up the agent's database", "done", done, "total", total)
		},
	})
	if failure.Is[*backup.CorruptError](err) {
		// No refusal to be repeated at each tick: finding this out takes a
		// download and a whole backup, so the version backs off.
		return errors.New(cannotBackUp(err, t.t.j.Database.Path, t.req.Request).Error())
	}
	if err != nil {
		return cannotBegin(fmt.Errorf("back up the agent's database: %w", err), t.req.Request, "the transaction is undone")
	}
	second := t.t.giveSecondName()
	db.Knows(sum, t.t.j.Database.Dir, second)
	return t.t.j.noteBackup(sum, second)
}

// proxy names the cluster that the database of today belongs to; a new one in
// the request only counts once it is committed.
func (t *advancing) proxy() string {
	return cmp.Or(t.t.m.proxyOf(t.req.config.Spec), t.req.spec().Proxy)
}

// relink makes the links the new version's. The updater's own waits for the commit.
func (t *advancing) relink(context.Context) error {
	return wrap(t.t.m.Host.Link(t.t.j.Links), "link version %s: %w", t.req.To)
}

func (t *advancing) placeUnit(context.Context) error {
	now, err := host.ReadUnit(t.t.m.Host.Paths.Unit())
	if err == nil && !host.SameUnit(now, t.t.j.Unit) {
		err = failure.Refuse("%s changed since the transaction was planned", t.t.m.Host.Paths.Unit())
	}
	if err != nil {
		return err
	}
	if err := t.t.keepUnit(); err != nil {
		return err
	}
	if err := t.t.m.Host.PlaceUnit(t.req.tree); err != nil {
		return err
	}
	t.placeReport()
	return nil
}

// placeReport has the agent report to its cluster from its next start on, or not. What
// the agent reads then is there before, for it reads that when it connects, and the start
// may be one of ours. No version is worth less for it.
func (t *advancing) placeReport() {
	c := t.req.config
	c.Spec = t.req.spec()
	c.Spec.ActiveVersion, c.Status.ActiveEdition = t.req.To.Version, t.req.To.Edition
	_, err := t.t.m.Host.ReportToCluster(!c.Spec.NoClusterReport)
	if err == nil {
		err = t.t.m.Host.WriteClusterConfig(c, c.Spec.Pinned || t.t.j.Commit.Held != nil)
	}
	t.t.m.warn(err, "the agent may not report its updates to its cluster")
}

// reload makes systemd read the unit, and makes sure that it will start the new
// version.
func (t *advancing) reload(ctx context.Context) error {
	if err := t.t.agent.DaemonReload(ctx); err != nil {
		return &reloadError{fmt.Errorf("make systemd read the new unit: %w", err)}
	}
	sight, err := t.t.agent.Look(ctx)
	if err != nil {
		return err
	}
	return t.t.m.Host.CheckStarts(sight.Unit, t.req.tree)
}

// exchangeDatabase puts the database in the place that the new version had.
func (t *advancing) exchangeDatabase(ctx context.Context) error {
	if t.t.j.Database.Plan != state.RestoreDatabase {
		return nil
	}
	db, err := t.t.database(ctx)
	if err == nil {
		err = db.Restore(ctx, t.req.tree.BackupDir())
	}
	err = wrap(err, "restore the database that version %s had: %w", t.req.To)
	if failure.Is[*backup.InUseError](err) {
		return errors.Join(cannotBegin(err, t.req.Request, "the transaction is undone"), t.t.j.setUntouched())
	}
	return err
}

// watch makes the agent run the new version and watches its health. An agent that
// nobody wants to run is left alone: the version counts as active, unproven.
func (t *advancing) watch(ctx context.Context) error {
	if !t.t.j.Agent.State.Wanted() {
		return nil
	}
	sight, err := t.t.agent.Look(ctx)
	if err != nil {
		return err
	}
	w := watchOf(t.req.tree.ProgramsDir(), t.req.spec().Health, sight)
	if least := health.MinWindow(sight.Unit); w.Window.Std() < least {
		t.t.m.Host.Log.Warn("the health window is shorter than it takes to see a slow crash loop", "window", w.Window.Std(), "advised", least)
	}
	if sight.Idle() && !t.t.j.Database.Stop {
		if stopping, err := t.t.agent.Stopping(ctx); err != nil {
			return err
		} else if stopping {
			return health.ErrHostStopping
		}
		t.t.m.Host.Log.Info("the agent was stopped since the transaction began, and stays down", "version", t.req.To.String())
		return t.t.j.setAgent(state.AgentStopped)
	}
	if sight.Running() && t.t.j.Agent.State == state.AgentRunning {
		w.CanStart = t.t.canStart
	}
	by := health.Reload
	switch {
	case t.t.j.Database.Stop:
		by = health.Start
	case t.req.Restart, t.t.j.Agent.State == state.AgentFailing, t.t.j.Agent.Program != sight.ExecStart:
		// A reload would have an agent that was started by another path, say a
		// package's, start that one again.
		by = health.Restart
	}
	outcome, err := t.t.agent.Prove(ctx, by, w)
	if err != nil {
		return err
	}
	t.t.m.Host.Log.Info("the agent is healthy", "version", t.req.To.String(), "restarted", outcome.Restarted)
	return nil
}
