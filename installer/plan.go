package installer

import (
	"context"
	"fmt"

	"teleport-update/installer/decision"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/installer/transaction"
	"teleport-update/installer/view"
	"teleport-update/internal/failure"
	"teleport-update/internal/space"
	"teleport-update/versions"
)

// UpdatePlan returns what Update would do now.
func (i *Installer) UpdatePlan(ctx context.Context, opts UpdateOptions) (view.Plan, error) {
	s := i.survey()
	defer s.Close()
	c, err := s.Config()
	if err != nil {
		return view.Plan{}, err
	}
	if host.Exists(i.Machine.Host.Paths.Journal()) {
		return view.Plan{Nothing: describeOpen(s)}, nil
	}
	p, whole := view.Plan{Nothing: "updates are disabled"}, true
	if c.Spec.Enabled {
		var repairs []string
		if repairs, whole, err = foreseeRepairs(ctx, s, c); err != nil {
			return view.Plan{}, err
		}
		p, err = planUpdate(ctx, i, c, opts)
		p.Repairs = repairs
	}
	if err != nil || p.To != "" || !whole || !c.Spec.Enabled || c.Spec.ActiveVersion == "" {
		return p, err
	}
	agent, err := s.Agent(ctx)
	switch {
	case err != nil:
	case failed(agent.Unit):
		p.Agent = "started, for it failed"
		err = transaction.CheckRestart(ctx, i.Machine, c)
	case opts.Restart && agent.Pending.Is():
		p.Agent = "restarted, for it differs from its unit: " + agent.Pending.String()
		err = transaction.CheckRestart(ctx, i.Machine, c)
	}
	return p, err
}

// planUpdate returns the change of the version that Update would make now.
func planUpdate(ctx context.Context, i *Installer, c state.Config, opts UpdateOptions) (view.Plan, error) {
	if c.Spec.Pinned {
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
	if !d.Change() {
		return view.Plan{Nothing: decision.WhyNot(d, c.Status)}, nil
	}
	req := updateRequest(c, d, opts)
	rules, err := i.ownerRules().policy(c)
	if err == nil {
		err = rules.Floors(d.Release, d.SHA256)
	}
	if err != nil {
		return view.Plan{From: req.From.Short(), To: req.To.String()}, refusedByOwner(err)
	}
	return i.plan(ctx, c, spec, req)
}

// foreseeRepairs returns what a person's update would repair, see repair, or why it would not, and whether the version itself is whole.
func foreseeRepairs(ctx context.Context, s *survey.Survey, c state.Config) (repairs []string, whole bool, err error) {
	if c.Spec.ActiveVersion == "" {
		return nil, true, nil
	}
	active, err := s.Version()
	if err != nil {
		return nil, false, err
	}
	if !active.Whole {
		return []string{"version " + c.Active().Short() + " is not whole on disk, and is fetched again"}, false, nil
	}
	damage := active.Tree.Verify(ctx)
	if damage != nil && !failure.Is[*versions.DamagedError](damage) {
		return nil, true, damage
	}
	why, err := s.Pair(ctx)
	switch {
	case err != nil:
		return nil, true, err
	case why != nil:
		return []string{"what somebody put there is left as it is: " + why.Error()}, true, nil
	case damage != nil:
		return []string{fmt.Sprintf("version %s is damaged, and is fetched again: %v", c.Active().Short(), damage)}, false, nil
	}
	links, err := s.Links()
	if err != nil {
		return nil, true, err
	}
	own, _ := s.Own(ctx) // the files are seen also if systemd cannot be asked
	return append(links, own.Problems...), true, nil
}

// describeOpen says what is going on if there is a journal.
func describeOpen(s *survey.Survey) string {
	if t, err := s.Transaction(); err == nil && t != nil && t.Running {
		return t.Working
	}
	return "a transaction was cut off and would be closed first"
}

// RollbackPlan returns what Rollback would do.
func (i *Installer) RollbackPlan(ctx context.Context, opts RollbackOptions) (view.Plan, error) {
	s := i.survey()
	c, err := s.Config()
	if err != nil {
		return view.Plan{}, err
	}
	if host.Exists(i.Machine.Host.Paths.Journal()) {
		return view.Plan{Nothing: describeOpen(s)}, nil
	}
	req, tree, err := i.rollbackRequest(c, opts)
	if err != nil {
		return view.Plan{}, err
	}
	if err := checkLocal(ctx, tree); err != nil {
		return view.Plan{}, err
	}
	return i.plan(ctx, c, c.Spec, req)
}

// plan fills in what a transaction would do, by the checks that the transaction makes.
func (i *Installer) plan(ctx context.Context, c state.Config, spec state.Spec, req transaction.Request) (view.Plan, error) {
	p := view.Plan{From: req.From.Short(), To: req.To.String()}
	flight, err := i.Machine.Preflight(ctx)
	if err != nil {
		return p, err
	}
	defer flight.Close()
	if flight.Tree, err = wholeTree(ctx, i.Machine.Host.Store, req); err != nil {
		return p, err
	}
	err = flight.Ask(ctx, c, req, transaction.Change|transaction.Now|transaction.Deep|transaction.OwnUnits)
	if flight.Database.Plan != "" {
		p.Database, p.Agent = describeDatabase(flight.Database, req), describeAgent(flight, req.Restart)
	}
	if err != nil {
		return p, err
	}
	return p, planRoom(ctx, i, c, spec, req, flight, &p)
}

// wholeTree returns the version of a request, if it is on disk as it was fetched; else zero.
func wholeTree(ctx context.Context, store *versions.Store, req transaction.Request) (versions.Tree, error) {
	tree, ok, err := store.Lookup(req.To.Release)
	if err != nil || !ok {
		return versions.Tree{}, err
	}
	err = tree.Verify(ctx)
	if failure.Is[*versions.DamagedError](err) {
		return versions.Tree{}, nil
	}
	return tree, err
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
func planRoom(ctx context.Context, i *Installer, c state.Config, spec state.Spec, req transaction.Request, flight *transaction.Preflight,
	p *view.Plan) error {
	if free, err := space.At(i.Machine.Host.Paths.Versions()); err == nil {
		p.Free = free.Bytes
	}
	if flight.Tree.Dir != "" {
		take, restore, err := transaction.RoomFor(flight.Database, flight.Tree.BackupDir())
		if err != nil {
			return err
		}
		if p.Need = take + restore; p.Need > 0 {
			p.Need += transaction.DatabaseMargin
		}
		return nil
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

// describeAgent says what would happen to the agent.
func describeAgent(flight *transaction.Preflight, restart bool) string {
	sight := flight.Sight
	switch {
	case sight.State == state.AgentUnknown:
		return "not restarted: systemd is not running"
	case !sight.State.Wanted():
		return "not running, and not started"
	case flight.Database.Stop:
		return "stopped and started"
	case restart, sight.State == state.AgentFailing, !sight.CanReload:
		return "restarted"
	}
	return "reloaded"
}
