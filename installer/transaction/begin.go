package transaction

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// prepare asks all that can stand in the way, changes nothing but the updater's own units, and opens
// the journal.
func (t *advancing) prepare(ctx context.Context) error {
	p, err := t.t.preflight(ctx)
	if err != nil {
		return err
	}
	p.Tree = t.req.tree
	if p.Sight.State == state.AgentUnknown {
		t.t.m.Host.Log.Warn("systemd is not running here: links, unit and configuration are changed, the agent is not restarted")
	}
	if err := p.Ask(ctx, t.req.config, t.req.Request, Change|Now|begins); err != nil {
		return err
	}
	j, err := t.plan(ctx, p)
	if err != nil {
		return err
	}
	if t.req.Replace && t.t.m.Host.OthersHere() {
		j.Replaces, t.t.m.Host.TimerLater = true, true
		if err := t.t.holdOthers(ctx, state.LockPatience); err != nil {
			return err
		}
	}
	how := host.Installing{EnableTimer: t.req.Kind == Enable, First: t.req.config.Spec.ActiveVersion == ""}
	j.OwnUnits.Fresh, err = t.t.m.Host.InstallUnits(ctx, t.t.agent, how)
	if err == nil {
		err = p.Ask(ctx, t.req.config, t.req.Request, Change|Now|OwnUnits|begins)
	}
	if err == nil {
		err = t.t.m.suitRescuer(ctx, j)
	}
	if err == nil {
		t.awaitMounts(p.Database)
		t.t.j = newOpenJournal(t.t.m.Host.Paths.Journal(), j)
		err = t.t.j.enter(begun)
	}
	if err == nil {
		addWentDown(ctx, t.t.m, t.t.agent, j.Agent.Dependents)
		return nil
	}
	if !failure.Is[*failure.Error](err) {
		err = fmt.Errorf("%w; %s", err, StaysAsItIs(t.req.config))
	}
	t.t.m.forgetMounts()
	if j.OwnUnits.Fresh {
		err = errors.Join(err, t.t.m.Host.RemoveUnits(ctx, t.t.agent))
	}
	return err
}

// plan is the journal of the transaction, but for what becomes of the updater's own units.
func (t *advancing) plan(ctx context.Context, p *Preflight) (*state.Journal, error) {
	unit, err := host.ReadUnit(t.t.m.Host.Paths.Unit())
	if err != nil {
		return nil, err
	}
	j := t.t.m.newJournal(ctx, t.t.agent)
	j.To, j.Links, j.Unit, j.Agent, j.Database = t.req.To, p.links, unit, p.Sight.asFound(), p.Database
	if from, ok, err := t.t.m.Active(t.req.config); err != nil {
		return nil, err
	} else if ok {
		j.From = new(TreeOf(from))
		if err := leadBack(t.t.m.Host, j, p.Sight, from); err != nil {
			return nil, err
		}
	}
	if j.Agent.Dependents, err = goesDown(ctx, t.t.agent, p.Sight.Ties); err != nil {
		return nil, err
	}
	if p.Database.Plan != state.KeepDatabase {
		j.Database.SecondDir = t.t.m.Host.Paths.Rollback()
	}
	j.Commit = state.Commit{Spec: t.req.Spec, Held: t.req.Held, SkippedBackup: p.Database.Skipped || p.Database.Damaged}
	if host.Exists(t.t.m.Host.Paths.Config()) {
		if j.Config, err = t.req.config.Text(); err != nil {
			return nil, err
		}
	}
	j.Packages.Found = t.t.m.AgentPackages(ctx)
	j.ClusterReport.Fresh = !t.req.spec().NoClusterReport && !host.Exists(t.t.m.Host.OwnUnits().UpdaterInfoFile())
	return j, nil
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
