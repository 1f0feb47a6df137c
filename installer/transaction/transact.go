package transaction

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teleport-update/backup"
	"teleport-update/health"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
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

// run does it all: prepare, the steps, commit; or, once there is a journal, undo.
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
		// This says nothing about the version. The journal stays; the next boot puts the old version back
		// before the agent starts.
		t.t.m.Host.Log.Warn("the host is shutting down in the middle of the transaction; it is undone at the next boot",
			"version", t.req.To.String())
		return errNeedsBoot
	}
	return t.abandon(ctx, err)
}

// forward takes the steps and commits. An error means undo, unless isProven says that the version
// is proven.
func (t *advancing) forward(ctx context.Context) (isProven bool, err error) {
	d := t.t.doing(t.req)
	for _, s := range steps() {
		began := t.t.m.Now()
		err := stepsForward()[s.name](d, ctx)
		t.addDuration(s, t.t.m.Now().Sub(began))
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

// addDuration adds the time that a step took to the durations in the history: the agent is down
// from its stop to the watch, which begins with its start.
func (t *advancing) addDuration(s step, d time.Duration) {
	part := "downtime"
	switch {
	case s.name == "backup" || s.name == "watch":
		part = s.name
	case !t.t.j.Database.Stop || !t.t.j.Agent.State.Wanted():
		return
	}
	t.t.took[part] += d
}

// transaction is an open transaction. Its owner holds the update lock.
type transaction struct {
	m     *Machine
	agent Agent
	j     *openJournal
	// db is the agent's database, once it was opened: see database.
	db *backup.Database
	// took are the durations of the steps that this process has done.
	took map[string]time.Duration
	// letOthers gives back the lock of the updater that is replaced, while that is held.
	letOthers func()
}

// letGo gives back what a transaction holds, however it ended.
func (t *transaction) letGo() {
	t.releaseOthers()
	t.closeDatabase()
	t.agent.Close()
}

// config reads the configuration while the transaction is open, in order to write it: no agent may
// wait for a file that people edit. A lost file counts as the transaction found it. A file that
// cannot be read is never overwritten. Then a person is needed, and the phase says what happens to
// earlier changes.
func (t *transaction) config() (c state.Config, lost bool, err error) {
	c, lost, err = t.m.Host.Paths.LoadConfigOr(t.j.Config)
	if err != nil {
		row, _ := phaseOf(t.j.Phase)
		return c, false, &failure.NeedsPersonError{Err: failure.In(failure.Aftermath(row.cutOff(&t.j.Journal)), err)}
	}
	if lost {
		t.m.Host.Log.Warn(lostConfig, "file", t.m.Host.Paths.Config())
	}
	return c, lost, nil
}

// found returns the configuration as the transaction found it. The journal of an older program does
// not have it; then found returns today's.
func (t *transaction) found() (state.Config, error) {
	if t.j.Config == "" {
		c, _, err := t.config()
		return c, err
	}
	return state.ParseConfig(t.j.Config)
}

const lostConfig = "updates.yaml was missing or empty and is written again from what the transaction began with"

// describeAside adds to the last outcome, for status, that the configuration was lost and written
// again, and which files are kept aside.
func (t *transaction) describeAside(last *state.LastUpdate, lost bool) {
	if last == nil {
		return
	}
	if lost {
		last.Error += "; " + lostConfig
	}
	if kept := t.keptAside(); len(kept) > 0 {
		last.Error = fmt.Sprintf("%s; the file that was put in its way is kept as %s", last.Error, strings.Join(kept, ", "))
	}
	last.Error = strings.TrimPrefix(last.Error, "; ")
}

func (t *transaction) closeDatabase() {
	if t.db != nil {
		t.db.Close()
		t.db = nil
	}
}

// releaseOthers gives the lock back.
func (t *transaction) releaseOthers() {
	t.m.Host.TimerLater = false
	if t.letOthers != nil {
		t.letOthers()
		t.letOthers = nil
	}
}

// keptAside returns the files that were moved out of the way and are still there.
func (t *transaction) keptAside() []string {
	return slices.DeleteFunc(slices.Clone(t.j.Aside), func(name string) bool { return !host.Exists(name) })
}

// leftOpen leaves a transaction open when systemd cannot be asked any more: nobody knows what the
// agent does, and nothing is done about it before that is known.
func (t *transaction) leftOpen(why error) error {
	return &failure.NeedsPersonError{Err: fmt.Errorf("the transaction to %s is left open, as it is: %w; the next run goes on with it", t.j.To,
		why)}
}

// durations returns the durations that are long enough to record.
func (t *transaction) durations() map[string]state.Duration {
	all := map[string]state.Duration{}
	for part, d := range t.took {
		if d = d.Round(time.Millisecond); d > 0 {
			all[part] = state.Duration(d)
		}
	}
	return all
}

// prepare asks all checks that can refuse the transaction, changes nothing but the updater's own
// units, and opens the journal.
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
		if err = t.t.makeWayBack(ctx, t.req.tree); err != nil {
			err = errors.Join(err, t.t.close(ctx))
		}
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

// plan returns the journal of the transaction, except for its part about the updater's own units.
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

// awaitMounts makes the recovery at boot wait for the file system that the agent's database is on,
// if that may be mounted late. It is a help and no guard: the recovery looks for itself, see
// awaits.
func (t *advancing) awaitMounts(d state.Database) {
	// The unit itself waits for the file system of the data folder.
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

// Do carries an order out in this process.
func (m *Machine) Do(ctx context.Context, o Order) error { return m.transact(ctx, *o.Transaction) }

// DoTransient carries an order out in a transient unit of its own if systemd runs, since the
// operator's shell may be a child of the very agent that is about to be stopped. Without systemd it
// uses this process.
func (m *Machine) DoTransient(ctx context.Context, o Order, description string) error {
	agent, err := m.Agent(ctx)
	if err != nil {
		return err
	}
	defer agent.Close()
	o.Writer = m.Host.Program
	if err := o.Stamp(o); err != nil {
		return err
	}
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	stdin, err := pipeOf(data)
	if err != nil {
		return err
	}
	defer stdin.Close()
	if ran, err := m.runTransient(ctx, agent, description, stdin, "switch"); ran || err != nil {
		return err
	}
	return m.Do(ctx, o)
}

// pipeOf returns the reading end of a pipe that holds data. An order fits into the
// pipe's buffer by far.
func pipeOf(data []byte) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if len(data) > 32<<10 {
		return nil, fmt.Errorf("the request is %d bytes long", len(data))
	}
	if _, err := w.Write(data); err != nil {
		return nil, errors.Join(err, r.Close(), w.Close())
	}
	return r, w.Close()
}
