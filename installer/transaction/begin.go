package transaction

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"teleport-update/health"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/space"
)

// prepare looks at everything that can stand in the way, changes nothing but
// the updater's own units, and opens the journal.
func (t *advancing) prepare(ctx context.Context) error {
	sight, err := t.t.agent.Look(ctx)
	if err != nil {
		return err
	}
	if err := t.t.m.CheckSight(sight); err != nil {
		return err
	}
	if err := t.t.m.Host.CheckOthers(t.req.Replace); err != nil {
		return err
	}
	if err := t.t.m.Host.CheckUnit(sight.Unit); err != nil {
		return err
	}
	if sight.State == state.AgentStopped {
		// By a person, or just now by the shutdown of the host: then nobody could say
		// whether the new version is healthy.
		if stopping, err := t.t.agent.Stopping(ctx); err != nil {
			return err
		} else if stopping {
			return fmt.Errorf("%w; %s", health.ErrHostStopping, StaysAsItIs(t.req.config))
		}
	}
	if t.req.Replace && sight.State == state.AgentStopped {
		return failure.Unchanged("the agent does not run, so no version can be proven, and the other updater stays").To("start the agent first").
			Refused()
	}
	if sight.State == state.AgentUnknown {
		t.t.m.Host.Log.Warn("systemd is not running here: links, unit and configuration are changed, the agent is not restarted")
	}
	database, err := t.t.m.PlanDatabase(ctx, t.req.config, t.req.Request)
	if err != nil {
		return err
	}
	if sight.Running() {
		if err := t.t.m.checkStartsAgain(ctx, sight, database.Path); err != nil {
			return (&failure.Error{What: fmt.Errorf("the agent, which runs, would not start again as it is: %w", err),
				State: StaysAsItIs(t.req.config)}).Refused()
		}
	}
	err = t.t.m.CheckRoom(database, t.req.tree.BackupDir())
	if failure.Is[*space.Error](err) && t.t.m.DropFailed(t.req.config, t.req.To.Release) {
		err = t.t.m.CheckRoom(database, t.req.tree.BackupDir())
	}
	if err != nil {
		return err
	}
	if err := t.t.holdDatabase(&database); err != nil {
		return err
	}
	if err := t.t.checkWilling(ctx, sight, database); err != nil {
		return fmt.Errorf("%w; %s", err, StaysAsItIs(t.req.config))
	}
	if database.Stop && sight.State.Wanted() {
		// Before the agent is stopped in vain.
		if err := t.t.waitUnused(ctx, t.t.m.UserPatience); err != nil {
			return cannotBegin(err, t.req.Request, StaysAsItIs(t.req.config))
		}
	}
	var from *state.Tree
	if tree, ok, err := t.t.m.Active(t.req.config); err != nil {
		return err
	} else if ok {
		from = new(TreeOf(tree))
		if err := t.t.checkLinked(sight, tree); err != nil {
			return fmt.Errorf("%w; %s", err, StaysAsItIs(t.req.config))
		}
	}
	links, err := t.t.m.Host.PlanLinks(t.req.tree)
	if err == nil {
		// That link is made once the version is proven, which is too late to find
		// that it cannot be.
		_, err = host.PlanUpdaterLink(t.t.m.Host.Paths.LinkDir, t.req.tree)
	}
	if err != nil {
		return fmt.Errorf("%w; %s", err, StaysAsItIs(t.req.config))
	}
	unit, err := host.ReadUnit(t.t.m.Host.Paths.Unit())
	if err != nil {
		return err
	}
	if err := t.t.m.Host.CanPlace(links, t.req.tree); err != nil {
		return (&failure.Error{What: fmt.Errorf("put version %s in its place: %w", t.req.To.Short(), err), State: StaysAsItIs(t.req.config),
			Fix: "see that the folder can be written"}).Refused()
	}
	j := t.t.m.newJournal()
	j.From, j.To, j.Links, j.Unit, j.Agent, j.Database = from, t.req.To, links, unit, sight.asFound(), database
	if j.Agent.Dependents, err = t.t.agent.ActiveOf(ctx, sight.Ties.Dependents); err != nil {
		return err
	}
	if database.Plan != state.KeepDatabase {
		j.Database.SecondDir = t.t.m.Host.Paths.Rollback()
	}
	j.Commit = state.Commit{Spec: t.req.Spec, Held: t.req.Held, SkippedBackup: database.Skipped || database.Damaged}
	if host.Exists(t.t.m.Host.Paths.Config()) {
		if j.Config, err = t.req.config.Text(); err != nil {
			return err
		}
	}
	j.Packages.Found = t.t.m.AgentPackages(ctx)
	if t.req.Replace && t.t.m.Host.OthersHere() {
		j.Replaces, t.t.m.Host.TimerLater = true, true
		if err := t.t.holdOthers(ctx, state.LockPatience); err != nil {
			return err
		}
	}
	j.ClusterReport.Fresh = !t.req.spec().NoClusterReport && !host.Exists(t.t.m.Host.OwnUnits().ReportFile())
	j.OwnUnits.Fresh, err = t.t.m.Host.InstallUnits(ctx, t.t.agent)
	if err == nil {
		err = t.t.m.CountOnRescuer(ctx)
	}
	if err == nil {
		err = t.t.m.suitRescuer(ctx, j)
	}
	if err == nil {
		t.awaitMounts(database)
		t.t.j = newRecord(t.t.m.Host.Paths.Journal(), j)
		err = t.t.j.enter(begun)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%w; %s", err, StaysAsItIs(t.req.config))
	t.t.m.forgetMounts()
	if j.OwnUnits.Fresh {
		err = errors.Join(err, t.t.m.Host.RemoveUnits(ctx, t.t.agent))
	}
	return err
}

// awaitMounts has the recovery at boot wait for the file system that the agent's
// database is on, where that may be mounted late. It is a help and no guard: the
// recovery looks for itself, see awaits.
func (t *advancing) awaitMounts(d state.Database) {
	// The unit itself waits for what the data folder is on.
	if m := d.Folder.Mount; m == "" || m == "/" || isAbove(m, t.t.m.Host.Paths.DataDir) {
		return
	}
	t.t.m.warn(t.t.m.Host.OwnUnits().AwaitMounts(d.Path, t.t.db.Path()),
		"at a boot, a recovery of this transaction may come before the agent's data, and leave them to the first tick")
}

func isAbove(dir, path string) bool {
	real, err := filepath.EvalSymlinks(path)
	return err == nil && strings.HasPrefix(real+"/", dir+"/")
}
