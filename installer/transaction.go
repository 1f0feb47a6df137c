package installer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"teleport-update/backup"
	"teleport-update/health"
	"teleport-update/internal/procfs"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// transaction switches the agent from one version to another. It holds the
// update lock throughout.
type transaction struct {
	*Installer
	conn    *systemd.Conn // nil where systemd does not run
	config  Config
	request SwitchRequest
	tree    versions.Tree // of the version to switch to

	j    *journal
	held bool // the new version is proven
}

// run does it all: prepare, switch, watch, commit; or, from the journal on,
// roll back.
func (t *transaction) run(ctx context.Context) error {
	if err := t.prepare(ctx); err != nil {
		return t.recordRefused(err)
	}
	t.Log.Info("switching", "from", nameOr(t.config.Spec.ActiveVersion, "none"), "to", t.request.To.String(), "database", string(t.j.Database.Plan))
	err := t.forward(ctx)
	if err == nil {
		return nil
	}
	if t.held {
		// From here there is only forward: the next run commits it.
		return &NeedsPersonError{fmt.Errorf("version %s runs and holds, but could not be committed: %w; the next run tries again, see `teleport-update status`", t.request.To, err)}
	}
	if errors.Is(err, health.ErrHostStopping) {
		// Says nothing about the version. The journal stays; the next boot
		// puts the old version back before the agent starts.
		t.Log.Warn("the host is shutting down in the middle of the switch; it is undone at the next boot", "version", t.request.To.String())
		return &NeedsBootError{}
	}
	return t.abandon(ctx, err)
}

// NeedsBootError is a switch that the shutdown of the host cut off.
type NeedsBootError struct{}

func (*NeedsBootError) Error() string {
	return "the host is shutting down: the switch is undone at the next boot"
}

// prepare looks at everything that can stand in the way, changes nothing but
// the updater's own units, and opens the journal.
func (t *transaction) prepare(ctx context.Context) error {
	if err := t.checkUnit(ctx, t.conn); err != nil {
		return err
	}
	agent, err := t.lookAtAgent(ctx)
	if err != nil {
		return err
	}
	database, err := t.planDatabase(ctx, t.config, t.request)
	if err != nil {
		return err
	}
	if err := t.checkRoom(database, t.tree.BackupDir()); err != nil {
		return err
	}
	var from *versions.Tree
	if tree, ok, err := t.active(t.config); err != nil {
		return err
	} else if ok {
		from = &tree
	}
	links, err := versions.PlanLinks(t.Paths.LinkDir, t.tree, t.originals())
	if err == nil {
		// That link is made once the version is proven, which is too late to find
		// that it cannot be.
		_, err = versions.PlanUpdaterLink(t.Paths.LinkDir, t.tree)
	}
	if err != nil {
		return fmt.Errorf("%w; %s", err, staysAsItIs(t.config))
	}
	unit, err := readUnitBefore(t.Paths.Unit())
	if err != nil {
		return err
	}
	t.j = &journal{
		Schema: journalSchema, ID: rand.Text(), Started: t.timestamp(), BootID: procfs.BootID(),
		To: t.request.To, Links: links, Unit: unit, Agent: agent, Database: database,
		Commit: commit{Spec: t.request.Spec, Held: t.request.Held, SkippedBackup: database.Skipped || database.Damaged},
	}
	t.j.TakenOver.Packages = t.agentPackages(ctx)
	if from != nil {
		r := releaseOf(*from)
		t.j.From = &r
	}
	t.j.UnitsNew, err = t.installUnits(ctx, t.conn)
	if err == nil {
		err = t.j.enter(t.Paths.Journal(), begun)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%w; %s", err, staysAsItIs(t.config))
	if t.j.UnitsNew {
		err = errors.Join(err, t.removeUnits(ctx, t.conn))
	}
	return err
}

// forward is the way to the new version. Any error means: undo.
func (t *transaction) forward(ctx context.Context) error {
	if t.j.Database.Stop && t.j.Agent.State.manageable() {
		// The stop comes before the backup, so that no row is lost: reversing
		// exactly must find everything (RFD 0169 §Downgrades, invariant 1).
		if err := stopAgent(ctx, t.conn); err != nil {
			t.j.Untouched = true
			return err
		}
	}
	if err := t.backUp(ctx); err != nil {
		t.j.Untouched = true
		return err
	}
	if err := t.relink(); err != nil {
		return err
	}
	if t.conn != nil {
		if err := t.conn.DaemonReload(ctx); err != nil {
			return fmt.Errorf("make systemd read the new unit: %w", err)
		}
		if err := t.checkSwitched(ctx); err != nil {
			return err
		}
	}
	t.j.Switched = true
	if err := t.j.enter(t.Paths.Journal(), switched); err != nil {
		t.j.Switched = false // nobody has told the agent
		return err
	}
	if t.j.Database.Plan == restoreDatabase {
		err := backup.Restore(ctx, backup.RestoreRequest{Dir: t.tree.BackupDir(), Target: t.j.Database.Path})
		if _, inUse := errors.AsType[*backup.InUseError](err); inUse {
			t.j.Database.Taken = false // it is what it was: there is nothing to put back
		}
		if err != nil {
			return fmt.Errorf("restore the database that version %s had: %w", t.request.To, err)
		}
	}
	if err := t.prove(ctx); err != nil {
		return err
	}
	t.held = true
	if err := t.enterProven(t.j); err != nil {
		return err
	}
	return t.finish(context.WithoutCancel(ctx), t.j, t.conn)
}

func (t *transaction) backUp(ctx context.Context) error {
	switch d := t.j.Database; {
	case d.Skipped:
		t.Log.Warn("the agent's database is not backed up, as asked: a rollback cannot bring it back", "database", d.Path)
		return backup.Outdate(d.Dir)
	case d.Damaged && d.Plan == restoreDatabase:
		to, err := backup.SetAside(ctx, d.Path, t.Now())
		if err != nil {
			return err
		}
		t.Log.Warn("the agent's database is damaged and cannot be backed up; it is kept aside as it is", "database", d.Path, "aside", to)
		return nil
	case d.Damaged:
		t.Log.Warn("the agent's database is damaged and cannot be backed up; the new version gets it as it is, as asked", "database", d.Path)
		return nil
	case d.Plan == keepDatabase:
		return nil
	}
	from := target{Version: t.config.Spec.ActiveVersion, Edition: t.config.Status.ActiveEdition}
	t.Log.Info("backing up the agent's database", "to", t.j.Database.Dir)
	err := backup.Take(ctx, backup.TakeRequest{
		Source:  t.j.Database.Path,
		Dir:     t.j.Database.Dir,
		Meta:    backup.Meta{Proxy: t.proxy(), Version: from.Version, Edition: from.Edition, Created: t.Now()},
		Stopped: t.j.Database.Stop || t.j.Agent.State == agentStopped,
		Progress: func(done, total int64) {
			t.Log.Info("backing up the agent's database", "done", done, "total", total)
		},
	})
	if isCorrupt(err) {
		// No refusal to be repeated at each tick: finding this out takes a
		// download and a whole backup, so the version backs off.
		return errors.New(cannotBackUp(err, t.j.Database.Path, t.request).Error())
	}
	if err != nil {
		return fmt.Errorf("back up the agent's database: %w", err)
	}
	t.j.Database.Taken = true
	return t.j.save(t.Paths.Journal())
}

// relink makes links and unit the new version's. The updater's own link waits
// for the commit.
func (t *transaction) relink() error {
	if err := versions.ApplyLinks(t.j.Links, t.Paths.Original()); err != nil {
		return fmt.Errorf("link version %s: %w", t.request.To, err)
	}
	return t.writeUnit(t.tree)
}

// prove makes the agent run the new version and watches it hold. An agent that
// nobody wants to run is left alone: the version counts as active, unproven.
func (t *transaction) prove(ctx context.Context) error {
	if !t.j.Agent.State.manageable() {
		return nil
	}
	w, err := t.watch(ctx, t.conn, t.tree.Dir, t.spec().Health)
	if err != nil {
		return err
	}
	u, err := t.conn.Unit(ctx, AgentUnit)
	if err != nil {
		return err
	}
	if w.Window < health.MinWindow(u) {
		t.Log.Warn("the health window is shorter than it takes to see a slow crash loop", "window", w.Window, "advised", health.MinWindow(u))
	}
	if u.Idle() && !t.j.Database.Stop {
		if stopping, err := t.conn.Stopping(ctx); err != nil {
			return err
		} else if stopping {
			return health.ErrHostStopping
		}
		t.Log.Info("the agent was stopped since the switch began, and stays down", "version", t.request.To.String())
		t.j.Agent.State = agentStopped
		return nil
	}
	t.Log.Info("watching the agent", "version", t.request.To.String(), "window", w.Window)
	var outcome health.Outcome
	switch {
	case t.j.Database.Stop:
		outcome, err = health.Prove(ctx, t.conn, health.Start, w)
	case t.j.Agent.State == agentFailing, t.j.Agent.Program != u.ExecStart:
		// A reload would have an agent that was started by another path, say a
		// package's, start that one again.
		outcome, err = health.Prove(ctx, t.conn, health.Restart, w)
	default:
		outcome, err = health.Prove(ctx, t.conn, health.Reload, w)
	}
	if err != nil {
		return err
	}
	t.Log.Info("the agent holds", "version", t.request.To.String(), "restarted", outcome.Restarted)
	return nil
}

// abandon undoes what forward did and records the failure. The undoing must not
// be cut short by what cut the switch short.
func (t *transaction) abandon(ctx context.Context, cause error) error {
	interrupted := ctx.Err() != nil
	if interrupted {
		// Says more than which call could not be ended any more.
		cause = fmt.Errorf("the updater was told to stop in the middle of it (%w)", context.Cause(ctx))
	}
	ctx = context.WithoutCancel(ctx)
	var unhealthy *health.UnhealthyError
	t.j.Error = cause.Error()
	// What an administrator's files prevent says nothing about the version.
	var refused *RefusedError
	t.j.Blame = !interrupted && !errors.As(cause, &refused)
	t.j.Interrupted = interrupted
	if errors.As(cause, &unhealthy) {
		t.j.heed(unhealthy)
	}
	t.Log.Warn("rolling back", "version", t.request.To.String(), "error", cause)
	if err := t.undo(ctx, t.j, t.conn); errors.Is(err, health.ErrHostStopping) {
		return &NeedsBootError{}
	} else if err != nil {
		return &NeedsPersonError{fmt.Errorf("switch to %s: %w; and rolling back failed: %w; the next run tries again, see `teleport-update status`", t.request.To, cause, err)}
	}
	what := "the switch to version %s failed and was undone: %w; the agent is on %s"
	if unhealthy != nil {
		what = "version %s did not hold and was rolled back: %w; the agent is on %s"
	}
	return fmt.Errorf(what, t.request.To, cause, orNone(t.config.Spec.ActiveVersion))
}

// recordRefused notes a switch that ended before its journal was open.
func (t *transaction) recordRefused(cause error) error {
	c := t.config
	var refused *RefusedError
	if errors.As(cause, &refused) && t.request.Kind.automatic() {
		return t.reportRefusal(&c, t.request.To.target(), cause)
	}
	c.Status.LastUpdate = &LastUpdate{
		Time: t.timestamp(), Target: t.request.To.Version, TargetEdition: t.request.To.Edition,
		Result: FailedEarly, Error: cause.Error(),
	}
	if t.neverEnabled(c) {
		t.forgetFirst(t.request.To.target())
	}
	return errors.Join(cause, c.save(t.Paths.Config()))
}

// spec is the configuration that holds once the version is committed.
func (t *transaction) spec() Spec {
	if t.request.Spec != nil {
		return *t.request.Spec
	}
	return t.config.Spec
}

// proxy names the cluster that the database of today belongs to; a new one in
// the request only holds once it is committed.
func (t *transaction) proxy() string {
	if p := t.proxyOf(t.config.Spec); p != "" {
		return p
	}
	return t.spec().Proxy
}
