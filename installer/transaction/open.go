package transaction

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"teleport-update/backup"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
	"teleport-update/versions"
)

// Open begins a command that changes the host: it takes the update lock, clears away what others
// left, closes a transaction that was cut off, and reads the configuration. The caller must give
// the lock back.
func (m *Machine) Open(ctx context.Context) (c state.Config, unlock func(), err error) {
	if err := m.recoverTransient(ctx); err != nil {
		return state.Config{}, nil, err
	}
	release, err := m.LockUpdates(ctx)
	if err != nil {
		return state.Config{}, nil, err
	}
	defer func() {
		if unlock == nil {
			release()
		}
	}()
	if err := m.recoverLive(ctx); err != nil {
		return state.Config{}, nil, err
	}
	if !host.Exists(m.Host.Paths.Versions()) {
		// An uninstall was ended, and the lock went with all the rest.
		return m.Open(ctx)
	}
	if err := m.Host.KeepAtBoot(); err != nil {
		return state.Config{}, nil, err
	}
	if c, err = m.FreshConfig(); err != nil {
		return state.Config{}, nil, err
	}
	if m.Host.Store.HasLeftovers() {
		// It may be long until something new comes and retention is due.
		m.Retain(ctx, c)
	}
	return c, release, nil
}

// A transaction whose journal somebody removed, or broke, is found by its backup, which is younger
// than the last outcome. Each transaction that ends records its outcome in updates.yaml and in the
// history, and settles its backup, for both files may come back as they were yesterday.

// rebuildWithin is how old the backup of such a transaction may be: an older one is no database to
// go back to without a journal that says so.
const rebuildWithin = 24 * time.Hour

// leaving returns the version that a transaction is from: the active one. If updates.yaml is lost,
// too, and names none, it is the version whose backup has its second name, which it has as long as
// the transaction is open.
func (m *Machine) leaving(c state.Config) (from versions.Tree, ok bool, err error) {
	second := m.Host.Paths.Rollback()
	if c.Spec.ActiveVersion != "" || !host.Exists(second) {
		return m.Active(c)
	}
	entries, err := m.Host.Store.List()
	if err != nil {
		return from, false, err
	}
	for _, e := range entries {
		tree, ok, err := m.Host.Store.Lookup(e.Release)
		if err == nil && ok && backup.HasSecondName(tree.BackupDir(), second) {
			return tree, true, nil
		}
	}
	return from, false, nil
}

// begunFrom returns the version that a transaction is from, and when its backup was taken, if a transaction
// was begun that has no outcome. Damaged records count as no transaction. An error says that the history,
// which may have the outcome, could not be read this time.
func (m *Machine) begunFrom(c state.Config) (from versions.Tree, made time.Time, ok bool, unread error) {
	from, ok, err := m.leaving(c)
	if err != nil || !ok {
		return from, made, false, nil
	}
	made, err = backup.Created(from.BackupDir())
	made = made.Truncate(time.Second) // as outcomes are
	last := c.Status.LastUpdate
	if err != nil || last != nil && !made.After(last.Time) || backup.Settled(from.BackupDir()) {
		return from, made, false, nil
	}
	history, err := state.LoadHistory(m.Host.Paths.History())
	if err != nil {
		return from, made, false, &unreadHistoryError{err}
	}
	// An older updates.yaml that somebody put back does not have the outcome.
	ended := func(s state.Ended) bool { return !made.After(s.Time) }
	return from, made, !slices.ContainsFunc(history.Ended, ended), nil
}

// unreadHistoryError means that this run does not know whether a transaction without a journal has an outcome.
type unreadHistoryError struct{ err error }

func (e *unreadHistoryError) Error() string { return e.err.Error() }
func (e *unreadHistoryError) Unwrap() error { return e.err }

// rebuiltJournal writes the record of such a transaction again. An unreadable journal is kept aside
// for it, and nothing in it is believed.
func (m *Machine) rebuiltJournal(ctx context.Context, unreadable bool) (*openJournal, error) {
	j, err := m.rebuildJournal(ctx)
	if failure.Is[*unreadHistoryError](err) {
		return nil, failure.Unchanged("%w", err).To("the next run reads it again; if the error stays, move the file away")
	}
	m.warn(err, "the journal of a transaction is lost and cannot be written again")
	if err != nil || j == nil {
		return nil, nil
	}
	if unreadable {
		aside := m.unreadableName()
		if err := durable.Rename(m.Host.Paths.Journal(), aside); err != nil {
			return nil, fmt.Errorf("keep the unreadable journal aside: %w", err)
		}
		j.Aside = append(j.Aside, aside)
	}
	m.Host.Log.Warn("the journal of a transaction is lost; it is written again from what the transaction left", "from", j.From.String(),
		"to", j.To.String())
	next := switched
	if j.To == *j.From {
		next = rollingBack
	}
	r := newOpenJournal(m.Host.Paths.Journal(), j)
	return r, r.enter(next)
}

// rebuildJournal makes the journal of such a transaction again. If links still lead to a version that no
// outcome names, that version is watched once more, and undone if it is not healthy, as after any other
// cut. If the links are back and the agent is down, the rest of an undoing is left, whatever the version
// was called: the journal names a transaction to the active one. Without such a transaction the result
// is nil.
func (m *Machine) rebuildJournal(ctx context.Context) (*state.Journal, error) {
	c, err := m.FreshConfig()
	lost := errors.Is(err, state.ErrEmpty)
	if err != nil && !lost {
		return nil, nil // a caller that needs the file reports that
	}
	from, made, ok, err := m.begunFrom(c)
	if err != nil {
		return nil, err
	}
	if age := m.Now().Sub(made); !ok || age < 0 || age > rebuildWithin {
		return nil, nil
	}
	to, ok := m.linkedTo(from)
	if !ok {
		return nil, nil
	}
	agent, err := m.Agent(ctx)
	if err != nil {
		return nil, err
	}
	defer agent.Close()
	sight, err := agent.Look(ctx)
	if err != nil || sight.State == state.AgentUnknown {
		return nil, err
	}
	j := m.newJournal(ctx, agent)
	j.From, j.To, j.Agent, j.Reached = new(TreeOf(from)), TreeOf(to), sight.asFound(), "reload"
	j.Agent.Dependents = foundDependents(ctx, m, agent, sight)
	down := sight.State == state.AgentStopped && sight.UnitFileState == "enabled"
	if down || sight.State == state.AgentFailing {
		j.Agent.State = state.AgentRunning // before the transaction, as far as anybody knows
	}
	if to.Release == from.Release {
		changed := m.CheckEnded(ctx, c, m) != nil
		if !down && !(changed && sight.State == state.AgentFailing) {
			return nil, nil
		}
		j.Verdict.Against = state.AgainstInterruption
		if !changed {
			j.Reached = ""
		}
	}
	back, err := host.PlanFreeLinks(m.Host, from)
	if err != nil {
		return nil, err
	}
	j.Links = host.Reversed(back, to)
	if j.Unit, err = m.Host.UnitOf(from); err != nil {
		return nil, err
	}
	if !lost { // else the file is not replaced: a person may have a copy of it
		if j.Config, err = c.Text(); err != nil {
			return nil, err
		}
	}
	if err := m.rebuildDatabasePlan(ctx, agent, j, from); err != nil {
		return nil, err
	}
	return j, nil
}

// foundDependents returns the units that such a transaction took down with the agent, and the units that its undoing will.
func foundDependents(ctx context.Context, m *Machine, agent Agent, sight Sight) []string {
	went, err := wentDown(ctx, m, agent)
	m.warn(err, mayBeDown)
	goes, err := goesDown(ctx, agent, sight.Ties)
	m.warn(err, mayBeDown)
	return union(went, goes)
}

// linkedTo returns the version of the store that the agent's link leads to. A copy of the program that is being left stands
// for its version. A copy of another one may come from configuration management, which has made it migrate the database.
func (m *Machine) linkedTo(from versions.Tree) (versions.Tree, bool) {
	// A link that leads nowhere leads to no release.
	program, _ := filepath.EvalSymlinks(filepath.Join(m.Host.Paths.LinkDir, host.AgentName))
	release, ok := m.Host.Store.ReleaseOf(program)
	if !ok {
		same, err := host.SameContent(from.Binary(host.AgentName), program)
		return from, same && err == nil
	}
	to, ok, err := m.Host.Store.Lookup(release)
	return to, ok && err == nil
}

// rebuildDatabasePlan adds the backup that the transaction took to the journal.
func (m *Machine) rebuildDatabasePlan(ctx context.Context, agent Agent, j *state.Journal, from versions.Tree) (err error) {
	j.Database = state.Database{Plan: state.BackupDatabase, Dir: from.BackupDir(), Taken: true}
	if second := m.Host.Paths.Rollback(); backup.HasSecondName(from.BackupDir(), second) {
		j.Database.SecondDir = second
	}
	if j.Database.Path, err = m.Host.Database(); err != nil {
		return err
	}
	t := &transaction{m: m, agent: agent}
	defer t.closeDatabase()
	if err := t.holdDatabase(ctx, &j.Database); err != nil {
		return err
	}
	return m.suitRescuer(ctx, j)
}

// CheckEnded returns an error if such a transaction cannot be rebuilt any more: the links are back,
// and the agent's database is another version's. A database that is as it was backed up is the
// active version's.
func (m *Machine) CheckEnded(ctx context.Context, c state.Config, seen Seen) error {
	from, _, ok, err := m.begunFrom(c)
	if err != nil || !ok {
		return nil
	}
	path, err := m.Host.Database()
	if err != nil {
		return nil
	}
	db, err := m.openChecked(path)
	if err != nil {
		return nil
	}
	defer db.Close()
	now, err := seen.Schema(ctx)
	if err != nil || now == "" {
		return nil
	}
	if then, err := backup.SchemaOf(ctx, from.BackupDir()); err != nil || then.Digest() == now {
		return nil
	}
	return fmt.Errorf("a transaction from version %s was begun and its journal is gone: "+
		"the agent's database %s was changed by another version since the backup in %s; "+
		"the next run closes the transaction, unless the backup is older than a day; "+
		"where the agent does not start then, stop it and put the backup in the database's place, without the -wal and -shm of the other one",
		from.Release.Short(), db.Path(), from.BackupDir())
}

// unreadableName returns the new name of a journal that cannot be read.
func (m *Machine) unreadableName() string {
	return m.Host.Paths.Journal() + ".unreadable-" + m.Now().UTC().Format("20060102T150405Z")
}

// dropLeftover is dropSecondName for a host without a journal. A backup that has no other name may
// be all that is left of a transaction whose journal and whose old version somebody removed: it
// stays as long as such a transaction could be rebuilt.
func (m *Machine) dropLeftover() {
	dir := m.Host.Paths.Rollback()
	if taken, only := backup.OnlyName(dir); only && m.Now().Sub(taken).Abs() < rebuildWithin {
		m.Host.Log.Warn("the backup of a transaction whose journal is lost has no other copy, and stays for a day", "backup", dir, "taken", taken)
		return
	}
	m.dropSecondName()
}
