package transaction

import (
	"context"
	"errors"
	"fmt"

	"teleport-update/health"
	"teleport-update/health/settings"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// An uninstall removes the version of today once the agent of before is proven, as a change of version does. If that agent is not
// healthy, the uninstall is called off: the version of today, with its database, is all that is known to run on this host.

// originalFailsError is an agent of before that is not healthy.
type originalFailsError struct{ why error }

func (e *originalFailsError) Error() string {
	return "the agent that was here before is not healthy: " + e.why.Error()
}

func (e *originalFailsError) Unwrap() error { return e.why }

// proveOriginal restarts the agent as the one of before, and watches it for as long as it takes to see it fail again and again.
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
	// There is a backup, or nothing to keep, or nobody knows. Else somebody started the agent after it had been seen to be down.
	kept := t.j.Database.Taken || t.j.Database.Absent || tables == "" || schemaErr != nil
	if !kept && now != tables {
		return fmt.Errorf("the agent that was here before is not healthy, and has changed the tables of the database, so it stays in its "+
			"place: %w", err)
	}
	return &originalFailsError{err}
}

// orCallOff is what becomes of an uninstall whose agent of before was to be started.
func (t *transaction) orCallOff(ctx context.Context, c state.Config, err error) error {
	if !failure.Is[*originalFailsError](err) {
		return err
	}
	if tree, keepErr := t.m.toKeep(c); keepErr != nil || !startable(TreeOf(tree)) {
		t.m.Host.Log.Warn("the uninstall goes on, for there is no whole version to go back to", "error", err)
		return nil
	}
	// First: whoever goes on after a cut brings the version of today back, too.
	if err := t.j.journalCalledOff(err.Error()); err != nil {
		return err
	}
	return t.callOff(ctx, c)
}

func (t *transaction) isCalledOff() bool { return t.j.Verdict.Reason != "" }

// callOff brings the version of today back, and closes the journal. It can be cut off anywhere and begun again. Its error says why
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

// bringTodayBack makes the host run the version of today. One that runs already, as after a cut, is left in peace.
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

// placeToday puts links, unit and database of today in their places while the agent is down. If the database cannot go back, neither do
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
			return t.placeAfterPutBack(c) // with what the agent of before wrote
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

// placeAfterPutBack places the version of today again.
func (t *transaction) placeAfterPutBack(c state.Config) error {
	if err := t.placeActive(c); err != nil {
		return err
	}
	return host.UnplaceUnit(t.m.Host)
}

// closeCalledOff ends an uninstall that is called off: updates go on if they did before.
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
