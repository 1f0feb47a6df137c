package transaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"teleport-update/backup"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// finish commits a proven version. It only goes forward, and can be cut off
// anywhere and begun again.
func (t *transaction) finish(ctx context.Context) error {
	tree, ok, err := t.m.Host.Store.Lookup(t.j.To.Release)
	if err != nil {
		return err
	}
	if !ok {
		return &failure.NeedsPersonError{Err: fmt.Errorf("version %s is proven but no longer on disk at %s: put it back, or remove %s to give up",
			t.j.To, t.j.To.Dir, t.m.Host.Paths.Journal())}
	}
	c, lost, err := t.config()
	if err != nil {
		// Records can wait, an agent cannot.
		if putBack := t.seeInPlace(ctx, tree); putBack != nil {
			err = &failure.NeedsPersonError{Err: errors.Join(err, putBack)}
		}
		return err
	}
	first := c.Spec.ActiveVersion == ""
	if err := t.m.Host.Keep(t.j.Links, tree, first); err != nil {
		return fmt.Errorf("keep what was here before: %w", err)
	}
	if err := t.replaceOthers(ctx); err != nil {
		return err
	}
	left, err := t.packages().takeOver(ctx, c.Status.PackagesLeft)
	if err != nil {
		return err
	}
	if err := t.seeInPlace(ctx, tree); err != nil {
		return err
	}
	t.startDependents(ctx)
	if err := t.startsWithoutPackages(ctx); err != nil {
		return err
	}
	if first {
		t.warnOfClosedFolders(tree)
	}
	if err := t.packages().keepPackages(); err != nil {
		return fmt.Errorf("keep what was here before: %w", err)
	}
	if c.Active() != t.j.To.Release {
		t.logForeignUpdater(tree)
	}
	// A file of a person's may have named the version before there was any.
	fresh := c.Active() != t.j.To.Release || t.j.Commit.Spec != nil || t.j.From == nil
	if fresh {
		was := c
		t.commitTo(&c)
		t.recordTables(ctx, was, &c)
		t.describeDown(ctx, c.Status.LastUpdate)
	}
	if fresh || lost {
		t.describeAside(c.Status.LastUpdate, lost)
	}
	if fresh || lost || !reflect.DeepEqual(left, c.Status.PackagesLeft) {
		c.Status.PackagesLeft = left
		if err := c.Save(t.m.Host.Paths.Config()); err != nil {
			return fmt.Errorf("commit version %s: %w", t.j.To, err)
		}
	}
	if err := t.outdateOwn(tree); err != nil {
		return err
	}
	if err := t.m.Host.LinkUpdater(tree); err != nil {
		return fmt.Errorf("link the updater of version %s: %w", t.j.To, err)
	}
	if err := t.packages().forgetKept(); err != nil {
		return err
	}
	if err := t.close(ctx); err != nil {
		return err
	}
	t.m.warn(t.m.Host.PromoteCopy(ctx), "the timer and the recovery go on with an older updater")
	t.m.Host.Log.Info("version is active", "version", t.j.To.String(), "previous", cmp.Or(c.Status.PreviousVersion, "none"),
		"unproven", c.Status.Unproven)
	t.m.Retain(ctx, c)
	return nil
}

// recordTables records the tables of a committed version. A version that was active, and is put in its place again under an
// agent that does not run, is not proven on somebody else's database: its earlier record stays.
func (t *transaction) recordTables(ctx context.Context, was state.Config, c *state.Config) {
	if was.Active() == c.Active() && t.j.Database.Foreign && !t.j.Agent.State.Wanted() {
		c.Status.ActiveSchema, c.Status.Unproven = was.Status.ActiveSchema, was.Status.Unproven
		return
	}
	c.Status.ActiveSchema = t.m.digestNow(ctx)
}

// outdateOwn outdates the backup that the proven version was left with, so that nobody restores it once more: the
// version writes on in the restored database, or never lost its own. It is left with another backup. If somebody
// puts yesterday's records back, they name the version before, and a downgrade by them would take back all that was
// written since.
func (t *transaction) outdateOwn(tree versions.Tree) error {
	if t.j.Database.Plan != state.RestoreDatabase && !t.j.Database.Foreign {
		return nil
	}
	return wrap(backup.Outdate(tree.BackupDir()), "outdate the backup that version %s was left with: %w", t.j.To)
}

// warnOfClosedFolders warns if users cannot run the programs: somebody closed a folder above them,
// which this program does not open.
func (t *transaction) warnOfClosedFolders(tree versions.Tree) {
	for dir := tree.ProgramsDir(); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o001 == 0 {
			t.m.Host.Log.Warn("tsh and the other programs are for root only: what their links lead to is in a folder that is closed to others",
				"folder", dir, "mode", info.Mode().Perm())
		}
	}
}

// logForeignUpdater logs, once for each version, why the release's updater is not used.
func (t *transaction) logForeignUpdater(tree versions.Tree) {
	u, ok := tree.Updater()
	if ok && !u.Ours {
		t.m.Host.Log.Info("the release carries another program named "+host.UpdaterName+"; it is neither linked nor run", "file", u.Path)
	}
}

// commitTo makes the proven version the active one in the configuration.
func (t *transaction) commitTo(c *state.Config) {
	if t.j.Commit.Spec != nil {
		found := c.Spec
		c.Spec = *t.j.Commit.Spec
		c.Spec.KeepUnknown(found)
		c.Spec.ActiveVersion = found.ActiveVersion
	}
	before := c.Active()
	if was := t.j.Packages.Version; was != nil && before.Version == "" {
		before = *was
	}
	if before.Version != "" && before != t.j.To.Release {
		c.RecordChange(t.j.To.Release, t.m.Timestamp())
		c.Status.PreviousVersion, c.Status.PreviousEdition = before.Version, before.Edition
	}
	c.Spec.ActiveVersion, c.Status.ActiveEdition = t.j.To.Version, t.j.To.Edition
	c.Status.CommittedVersion = t.j.To.Version
	c.Status.Unproven = !t.j.Agent.State.Wanted()
	// The failure of the previous version stays on record if a version is only put back.
	c.Status.Failed, c.Status.FailedBefore = c.PreviousFailed(), nil
	c.Status.Interrupted, c.Status.Refused = nil, nil
	c.Status.RollbackRefused = nil
	c.Status.Held = t.j.Commit.Held
	c.Status.LastUpdate = &state.LastUpdate{
		Time: t.m.Timestamp(), Target: t.j.To.Version, TargetEdition: t.j.To.Edition,
		Result: state.Succeeded, SkippedBackup: t.j.Commit.SkippedBackup, Took: t.durations(),
	}
}

// seeInPlace makes sure that the agent has the files that it starts from, and runs.
func (t *transaction) seeInPlace(ctx context.Context, tree versions.Tree) error {
	if err := t.reconcile(ctx, tree, t.agent); err != nil {
		return fmt.Errorf("see that version %s is in its place: %w", t.j.To, err)
	}
	return t.startReconciled(ctx)
}

// reconcile puts links, unit and enablement of a proven version back if somebody took them away:
// the removal of a package takes its paths although they are our links now. It changes files only;
// at boot that goes for the updater's timer too, since timer is absent then.
func (t *transaction) reconcile(ctx context.Context, tree versions.Tree, timer host.Timer) error {
	err := t.setAside(host.Occupied(t.j.Links))
	if err == nil {
		err = t.setAsideForUnit()
	}
	if err != nil {
		return err
	}
	problems, err := t.m.Host.Problems(tree)
	if err != nil {
		return err
	}
	disabled := host.Dangling(t.j.Agent.EnabledBy)
	for _, link := range disabled {
		problems = append(problems, link+" is missing")
	}
	own := t.m.Host.OwnUnits().Problems()
	for _, p := range append(problems, own...) {
		t.m.Host.Log.Warn("putting back what was taken away since the version was proven", "problem", p)
	}
	if len(own) > 0 {
		if _, err := t.m.Host.InstallUnits(ctx, timer, host.Installing{}); err != nil {
			return err
		}
	}
	if len(problems) == 0 {
		return nil
	}
	// First, so that a kill right after the repair does not hide that the agent
	// may be down.
	if err := t.j.journalReconciled(); err != nil {
		return err
	}
	if err := t.m.Host.Repair(tree); err != nil {
		return err
	}
	if err := t.m.Host.Reenable(disabled); err != nil {
		return fmt.Errorf("enable the agent again: %w", err)
	}
	return t.reloadSystemd(ctx)
}

// reconcileAtBoot puts back the files that the agent is started from, in case they were taken away
// after the version was proven.
func (t *transaction) reconcileAtBoot(ctx context.Context) error {
	tree, ok, err := t.m.Host.Store.Lookup(t.j.To.Release)
	if err != nil || !ok {
		return err // finish says so, once the agent has had its chance to start
	}
	return errors.Join(t.packages().putBackKept(), t.reconcile(ctx, tree, absent{}))
}

// startReconciled starts an agent that was stopped when somebody took its files away, or that a
// boot did not find them for.
func (t *transaction) startReconciled(ctx context.Context) error {
	if err := t.settleReload(ctx); err != nil || !t.j.Agent.Start || !t.j.Agent.State.Wanted() {
		return err
	}
	sight, err := t.agent.Look(ctx)
	if err != nil || sight.State == state.AgentRunning {
		return err
	}
	t.m.Host.Log.Warn("starting the agent, which is down since its files were taken away", "version", t.j.To.String())
	return wrap(t.agent.Start(ctx), "start version %s: %w", t.j.To)
}

// outdated reports whether the journal is of a transaction that is over: somebody took the journal
// away and put it back when another transaction had been committed. To act on it would give the
// agent a database of long ago. It goes only by what updates.yaml says for certain: the file names
// a success, or an undone transaction, which is another one and later than the last outcome that
// this transaction found there.
func (m *Machine) outdated(j *openJournal) bool {
	c, err := m.FreshConfig()
	last := c.Status.LastUpdate
	if err != nil || last == nil || j.Config == "" || last.Transaction == j.ID {
		return false
	}
	if last.Result != state.Succeeded && last.Transaction == "" {
		return false
	}
	if row, _ := phaseOf(j.Phase); row.succeeds && last.Target == j.To.Version {
		return false // its own
	}
	then, err := state.ParseConfig(j.Config)
	before := then.Status.LastUpdate
	return err == nil && (before == nil || last.Time.After(before.Time))
}

// setOutdatedAside keeps such a journal aside.
func (m *Machine) setOutdatedAside(j *openJournal) error {
	to := fmt.Sprintf("%s.outdated-%s", j.path, m.Now().UTC().Format("20060102T150405Z"))
	m.Host.Log.Warn("ignoring an old journal: a later transaction has finished",
		"to", j.To.String(), "begun", j.Started, "aside", to)
	return wrap(durable.Rename(j.path, to), "keep the outdated journal aside: %w")
}

// leftBehind reports whether the host has left both versions of the journal: the agent's link and its
// unit belong to a third version. Somebody put back a copy of the records that was made in the middle of
// a transaction. Its database is old, and nothing is moved on its word. Times prove nothing, for copies
// keep or lose them. A link alone proves nothing, either: somebody who put a link in the way of an open
// transaction has not put a unit there.
func (m *Machine) leftBehind(j *openJournal) bool {
	if host.AgentLinkIsBack(j.Links) {
		return false
	}
	program, err := filepath.EvalSymlinks(filepath.Join(m.Host.Paths.LinkDir, host.AgentName))
	if err != nil {
		return false // it leads nowhere
	}
	known := []string{j.To.ProgramsDir()}
	if j.From != nil {
		known = append(known, j.From.ProgramsDir())
	}
	for _, dir := range known {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		if strings.HasPrefix(program, dir+"/") {
			return false
		}
	}
	release, ok := m.Host.Store.ReleaseOf(program)
	return ok && m.hasUnitOf(versions.Tree{Release: release, Programs: filepath.Dir(filepath.Dir(program))})
}

// setCopyAside keeps such a journal aside. The transaction has an outcome from then on, so no run
// reports it again because of its backup.
func (m *Machine) setCopyAside(j *openJournal) error {
	c, err := m.FreshConfig()
	if err != nil {
		return failure.Unchanged("%w", err)
	}
	c.Status.LastUpdate = &state.LastUpdate{
		Time: m.Timestamp(), Target: j.To.Version, TargetEdition: j.To.Edition, Result: state.Interrupt, Transaction: j.ID,
		Error: "a copy of the records of this transaction was put back: links and unit are of a version that it has nothing to do with",
	}
	if err := c.Save(m.Host.Paths.Config()); err != nil {
		return err
	}
	return m.setOutdatedAside(j)
}

// hasUnitOf reports whether the agent's unit is the unit of tree. The record of tree may be gone, and
// with it the edition.
func (m *Machine) hasUnitOf(tree versions.Tree) bool {
	now, err := host.ReadUnit(m.Host.Paths.Unit())
	if err != nil {
		return false
	}
	return slices.ContainsFunc([]version.Edition{tree.Release.Edition, version.FIPS}, func(e version.Edition) bool {
		tree.Release.Edition = e
		unit, err := m.Host.UnitOf(tree)
		return err == nil && host.SameUnit(now, unit)
	})
}

// advance notes that a step is done. When a version is proven, it notes how the agent is enabled,
// too: links that are missing at the commit were taken away in between, not by a person who
// disabled the agent during the watch.
func (t *transaction) advance(s step) error {
	if s.enters == proven {
		links, err := t.m.Host.EnabledBy()
		if err != nil {
			return fmt.Errorf("see how the agent is enabled: %w", err)
		}
		if err := t.j.setEnabledBy(links); err != nil {
			return err
		}
	}
	return t.j.advance(s)
}

// enterProven enters the phase from which a transaction only goes forward.
func (t *transaction) enterProven() error {
	all := steps()
	return t.advance(all[len(all)-1])
}
