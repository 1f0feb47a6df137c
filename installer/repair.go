package installer

import (
	"context"
	"fmt"

	"teleport-update/installer/host"
	"teleport-update/installer/policy"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/versions"
)

// repair repairs the active version without fetching it: links and unit (RFD 0169 §Runtime, enable step 14). It does not restart the
// agent. It reports whether the version itself is whole. With thorough, as for a person's command, it checks every file against the
// manifest, and repairs the updater's own units. A timer that somebody disabled stays so.
func (i *Installer) repair(ctx context.Context, c state.Config, thorough bool) (whole bool, err error) {
	if c.Spec.ActiveVersion == "" {
		return true, nil
	}
	tree, ok, err := i.Machine.Active(c)
	if err != nil {
		return false, err
	}
	if !ok {
		i.Machine.Host.Log.Error("the active version is not whole on disk any more; it is fetched again", "version", c.Spec.ActiveVersion)
		return false, nil
	}
	check := tree.SeeWhole
	if thorough {
		check = tree.Verify
	}
	err = check(ctx)
	damaged := failure.Is[*versions.DamagedError](err)
	if err != nil && !damaged {
		return false, err
	}
	if refused := i.Machine.CheckPair(ctx, c, tree, i.Machine); failure.Is[*failure.RefusedError](refused) {
		if !c.Committed() && !i.Machine.Scheduled {
			return true, refused // a person may take the version written there for the host's
		}
		i.Machine.Host.Log.Error("the active version is not repaired", "error", refused)
		return true, nil
	} else if refused != nil {
		return !damaged, refused
	}
	if damaged {
		i.Machine.Host.Log.Error("the active version is damaged; it is fetched again", "version", c.Spec.ActiveVersion, "error", err)
		return false, nil
	}
	if err := i.repairLinks(ctx, tree); err != nil {
		return true, err
	}
	if err := i.seeReport(ctx, c.Spec); err != nil || !thorough {
		return true, err
	}
	return true, i.repairUnits(ctx, tree)
}

func (i *Installer) repairUnits(ctx context.Context, active versions.Tree) error {
	units := i.Machine.Host.OwnUnits()
	for _, p := range units.Overruled() {
		i.Machine.Host.Log.Warn("an administrator's file keeps a unit of the updater's from running", "problem", p)
	}
	problems := units.Problems()
	for _, p := range problems {
		i.Machine.Host.Log.Warn("repairing", "problem", p)
	}
	if len(problems) == 0 {
		return nil
	}
	if err := i.installUnits(ctx, host.Installing{}); err != nil {
		return err
	}
	i.chronicle().addRepair(active.Release, problems)
	return nil
}

// fetchedAgain is the history's text for a version that was made whole.
const fetchedAgain = "the version was damaged, and is fetched again"

// fetchAgain brings back an active version that is damaged, and links it. Nothing is switched.
func (i *Installer) fetchAgain(ctx context.Context, damaged wanted) error {
	_, unclaim, err := i.obtainer().obtain(ctx, damaged)
	if err != nil {
		return i.obtainer().recordEarlyFailure(ctx, damaged, err)
	}
	defer unclaim()
	c, unlock, err := i.Machine.Open(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err = i.repair(ctx, c, false); err != nil {
		return err
	}
	i.chronicle().addRepair(damaged.Release, []string{fetchedAgain})
	return nil
}

func (i *Installer) repairLinks(ctx context.Context, tree versions.Tree) error {
	problems, err := i.Machine.Host.Problems(tree)
	if err != nil || len(problems) == 0 {
		return err
	}
	if refused := transaction.CheckLed(ctx, i.Machine, tree, i.Machine); failure.Is[*failure.RefusedError](refused) {
		i.Machine.Host.Log.Error("the agent's unit is not repaired", "error", refused)
		return host.RepairLinks(i.Machine.Host, tree)
	} else if refused != nil {
		return refused
	}
	for _, p := range problems {
		i.Machine.Host.Log.Warn("repairing", "problem", p)
	}
	unit, err := host.ReadUnit(i.Machine.Host.Paths.Unit())
	lost := err == nil && host.UnitLost(unit)
	kept, err := i.Machine.Host.KeepForeignUnit()
	if err != nil {
		return fmt.Errorf("keep the agent's unit, which somebody wrote: %w", err)
	}
	if kept != "" {
		i.Machine.Host.Log.Warn("somebody wrote the agent's unit; it is kept aside", "aside", kept)
	}
	if err := i.Machine.Host.Repair(tree); err != nil {
		return err
	}
	if err := i.Machine.Host.LinkUpdater(tree); err != nil {
		return fmt.Errorf("repair the updater's link: %w", err)
	}
	i.chronicle().addRepair(tree.Release, problems)
	if err := i.reloadUnits(ctx); err != nil || !lost {
		return err
	}
	return startWithout(ctx, i.Machine)
}

// startWithout starts an agent that systemd did not start at this boot, or not again after it failed, because its unit was lost.
// An agent that a person stopped stays down.
func startWithout(ctx context.Context, m *transaction.Machine) error {
	agent, err := m.Agent(ctx)
	if err != nil {
		return err
	}
	defer agent.Close()
	sight, err := agent.Look(ctx)
	ran := sight.InvocationID != "" && sight.State != state.AgentFailing
	if err != nil || ran || sight.State == state.AgentRunning || sight.UnitFileState != "enabled" || sight.JobPending {
		return err
	}
	m.Host.Log.Warn("starting the agent, whose unit was lost", "unit", sight.Name)
	if err := agent.Start(ctx); err != nil {
		m.Host.Log.Error("the agent cannot be started: `journalctl -u teleport` says why", "error", err)
	}
	return nil
}

// makeWhole fetches a damaged active version again before the host leaves it for another one: an undoing goes back to it, and its files may
// not be had then. If that fails, the change is refused, unless a person insists; insisting is the command for that.
func makeWhole(ctx context.Context, i *Installer, to wanted, insists bool, insisting string) error {
	active := to.Config.Active()
	if active.Version == "" || active == to.Release {
		return nil
	}
	tree, damage, err := damageOf(ctx, i.Machine, to)
	if err != nil || damage == nil {
		return err
	}
	log := i.Machine.Host.Log
	if tree.Dir != "" {
		if err := i.Machine.CheckPair(ctx, to.Config, tree, i.Machine); failure.Is[*failure.RefusedError](err) {
			log.Warn("the active version is damaged, and stays so: an undoing goes back to the program that is there now", "error", err)
			return nil
		} else if err != nil {
			return fmt.Errorf("see whether the active version may be fetched again: %w; %s", err, transaction.StaysAsItIs(to.Config))
		}
	}
	log.Warn("the active version is damaged; it is fetched again before the change", "version", active.Short(), "error", damage)
	err = i.fetchAgain(ctx, wanted{Release: active, Config: to.Config, Spec: to.Config.Spec, Retried: to.Retried})
	byPolicy, _ := policy.Refuses(err)
	if byPolicy && tree.SHA256 != "" {
		err = i.obtainer().refetch(ctx, to.Config, transaction.TreeOf(tree)) // the very tarball that it came from
		if err == nil {
			i.chronicle().addRepair(active, []string{fetchedAgain})
		}
	}
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case insists || byPolicy: // a withdrawn version is to be left
		log.Warn("the active version stays damaged: the change may not be undone if the other version fails", "version", active.Short(), "error",
			err)
		return nil
	}
	return fmt.Errorf("version %s is damaged (%w) and could not be fetched again, so the change to version %s could not be "+
		"undone and waits: %w; `%s` makes it all the same",
		active.Short(), damage, to.Short(), err, insisting)
}

// damageOf returns the damage of the active version on disk; nil if it is whole.
func damageOf(ctx context.Context, m *transaction.Machine, to wanted) (tree versions.Tree, damage, err error) {
	tree, ok, err := m.Active(to.Config)
	if err != nil {
		return tree, nil, err
	}
	if !ok {
		return tree, fmt.Errorf("%s", m.WhyNotKept(to.Config.Active())), nil
	}
	err = tree.Verify(ctx)
	if failure.Is[*versions.DamagedError](err) {
		return tree, err, nil
	}
	return tree, nil, err
}

// restartAgent starts an agent that failed, or restarts one that differs from its unit, and watches it. The caller holds no lock.
func (i *Installer) restartAgent(ctx context.Context) error {
	c, unlock, err := i.Machine.Open(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	now := i.surveyToChange()
	agent, err := now.Agent(ctx)
	now.Close()
	if err != nil {
		return err
	}
	log := i.Machine.Host.Log
	switch p := agent.Pending; {
	case failed(agent.Unit):
		log.Warn("starting the agent, which failed", "version", c.Active().Short(), "result", agent.Result)
		if err := i.Machine.RestartActive(ctx, c); err != nil {
			return &failure.NeedsPersonError{Err: err}
		}
		return nil
	case !p.Is():
		log.Info("the agent runs with what its unit says; it is not restarted")
		return nil
	default:
		log.Info("restarting the agent, as was asked for", "because", p.String())
		return i.Machine.RestartActive(ctx, c)
	}
}
