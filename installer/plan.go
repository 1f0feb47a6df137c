package installer

import (
	"context"
	"errors"
	"fmt"

	"teleport-update/installer/decision"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/installer/view"
	"teleport-update/internal/failure"
	"teleport-update/internal/space"
	"teleport-update/versions"
)

// UpdatePlan is what Update would do now.
func (i *Installer) UpdatePlan(ctx context.Context, opts UpdateOptions) (view.Plan, error) {
	c, err := i.Machine.Host.Paths.LoadConfig()
	if err != nil {
		return view.Plan{}, err
	}
	switch {
	case host.Exists(i.Machine.Host.Paths.Journal()):
		return view.Plan{Nothing: "a transaction was cut off and would be closed first"}, nil
	case !c.Spec.Enabled:
		return view.Plan{Nothing: "updates are disabled"}, nil
	case c.Spec.Pinned:
		return view.Plan{Nothing: "the host is pinned to " + c.Spec.ActiveVersion}, nil
	}
	spec := c.Spec
	if err := i.Machine.Host.ResolveProxy(&spec); err != nil {
		return view.Plan{}, err
	}
	answer, err := i.finder().askQuietly(ctx, spec)
	if err != nil {
		return view.Plan{}, failure.Unchanged("%w", err)
	}
	if answer.AutoUpdate {
		c.Status.TakeUpRetry(answer.RetryFailed, releaseOf(answer), i.Machine.Now())
	}
	d := i.decide(ctx, c, spec, answer, opts.Now)
	if d.Action == decision.Nothing {
		return view.Plan{Nothing: d.Reason}, nil
	}
	return i.plan(ctx, c, spec, updateRequest(c, d, opts))
}

// RollbackPlan is what Rollback would do.
func (i *Installer) RollbackPlan(ctx context.Context, opts RollbackOptions) (view.Plan, error) {
	c, err := i.Machine.Host.Paths.LoadConfig()
	if err != nil {
		return view.Plan{}, err
	}
	if host.Exists(i.Machine.Host.Paths.Journal()) {
		return view.Plan{Nothing: "a transaction was cut off and would be closed first"}, nil
	}
	req, err := i.rollbackRequest(ctx, c, opts)
	if err != nil {
		return view.Plan{}, err
	}
	return i.plan(ctx, c, c.Spec, req)
}

// plan fills in what a transaction would do, with the very checks that the transaction
// makes.
func (i *Installer) plan(ctx context.Context, c state.Config, spec state.Spec, req transaction.Request) (view.Plan, error) {
	p := view.Plan{From: req.From.Short(), To: req.To.String()}
	db, err := i.Machine.PlanDatabase(ctx, c, req)
	if err == nil && !db.Stop {
		// What the backup would find while the agent runs.
		err = transaction.Inspect(ctx, &db, req)
	}
	if err != nil {
		return p, err
	}
	p.Database = describeDatabase(db, req)
	if p.Agent, err = i.planAgent(ctx, db, req.Restart); err != nil {
		return p, err
	}
	return p, i.planRoom(ctx, c, spec, req, db, &p)
}

func describeDatabase(d state.Database, req transaction.Request) string {
	switch restore := d.Plan == state.RestoreDatabase; {
	case d.Damaged && restore:
		return fmt.Sprintf("damaged: kept aside as it is; then the one that version %s had is restored", req.To)
	case d.Damaged:
		return "damaged: left as it is"
	case d.Skipped:
		return "left as it is, not backed up"
	case restore:
		return fmt.Sprintf("backed up to %s; then the one that version %s had is restored", d.Dir, req.To)
	case d.Plan == state.BackupDatabase:
		return fmt.Sprintf("backed up to %s; version %s goes on with it", d.Dir, req.To)
	}
	return "none to back up"
}

// planRoom says what would be downloaded, and what room that and the database
// need.
func (i *Installer) planRoom(ctx context.Context, c state.Config, spec state.Spec, req transaction.Request, db state.Database,
	p *view.Plan) error {
	if free, err := space.At(i.Machine.Host.Paths.Versions()); err == nil {
		p.Free = free.Bytes
	}
	tree, ok, err := i.Machine.Host.Store.Lookup(req.To.Release)
	if err != nil {
		return err
	}
	if ok {
		err := tree.Verify(ctx)
		if _, damaged := errors.AsType[*versions.DamagedError](err); err != nil && !damaged {
			return err
		}
		ok = err == nil
	}
	if ok {
		take, restore, err := transaction.RoomFor(db, tree.BackupDir())
		if err != nil {
			return err
		}
		if p.Need = take + restore; p.Need > 0 {
			p.Need += transaction.DatabaseMargin
		}
		return i.Machine.CheckRoom(db, tree.BackupDir())
	}
	f, fetch, err := i.obtainer().fetcher(c, req.To.Release, spec)
	if err != nil {
		return err
	}
	e, err := f.Estimate(ctx, fetch)
	if err != nil {
		return failure.Unchanged("%w", err)
	}
	p.Download, p.Bytes, p.Need, p.Free = e.From, e.Download, e.Need, e.Free
	if e.Free < e.Need {
		return failure.Unchanged("%w", &space.Error{Path: e.At, Need: e.Need, Free: e.Free}).To("free some space")
	}
	return nil
}

// planAgent says what would happen to the agent.
func (i *Installer) planAgent(ctx context.Context, db state.Database, restart bool) (string, error) {
	sight, err := i.look(ctx)
	if err != nil {
		return "", err
	}
	if sight.State == state.AgentUnknown {
		return "not restarted: systemd is not running", nil
	}
	if err := i.Machine.Host.CheckOthers(false); err != nil {
		return "", err
	}
	if err := i.Machine.CheckSight(sight); err != nil {
		return "", err
	}
	if err := checkRun("/run/systemd/system"); err != nil {
		return "", err
	}
	if err := i.Machine.CountOnRescuer(ctx); err != nil {
		return "", err
	}
	if err := i.Machine.Host.CheckUnit(sight.Unit); err != nil {
		return "", err
	}
	switch {
	case !sight.State.Wanted():
		return "not running, and not started", nil
	case db.Stop:
		return "stopped and started", nil
	case restart, sight.State == state.AgentFailing, !sight.CanReload:
		return "restarted", nil
	}
	return "reloaded", nil
}
