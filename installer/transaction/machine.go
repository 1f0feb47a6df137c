// Package transaction changes the version of the agent on one host, as a
// transaction.
//
// A transaction begins with a journal on stable storage and ends when the
// journal is gone. Between the two, whatever happens (an error, a kill, a power
// cut), the journal says how to put the old version back, with its links, its
// unit and its database; once the new version is proven, it says how to finish.
// Whoever takes the update lock first closes a journal it finds (see Open).
//
// A version is proven when the agent was healthy for the health window. What is not
// proven is undone, and remembered, so that the timer does not try it again at
// once.
//
// What a transaction may do in which phase, and what a recovery makes of it, is a
// table: see phases. What it does, in which order, and what undoes that is a list:
// see steps. Every path that decides that a transaction is over goes through one door,
// see undo.
//
// Rules come from RFD 0169; where this package differs, the comment at the
// place says why.
package transaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"teleport-update/backup"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
	"teleport-update/internal/layout"
	"teleport-update/versions"
)

// Machine is what transactions are made with. All fields are needed.
type Machine struct {
	Host *host.Host
	// Connect connects to the agent; see HostAgent for its errors.
	Connect func(context.Context) (Agent, error)
	// Command starts this program again: its path and global flags. A transaction runs in
	// a unit of its own that way.
	Command []string
	// Scheduled says that the timer started this run: it never waits for a lock, and
	// a lock that is taken is no failure.
	Scheduled bool
	Now       func() time.Time
	// Refetch puts a release on disk again that was there, and is damaged or gone, as the
	// configuration says where from.
	Refetch func(context.Context, state.Config, state.Tree) error
	// UserPatience is how long a process that uses the agent's database is waited for
	// before the agent is stopped; see waitUnused.
	UserPatience time.Duration
	// BootID tells one boot of the host from another.
	BootID func() string
	// AskRescuer asks the program that the recovery at boot runs which journals it can act
	// on; nil for host.Rescuer.
	AskRescuer func(context.Context) (program string, schema int, err error)
	// OpenByName finds a file that processes have open; nil for that of procfs.
	OpenByName func(pids []int, prefix string) string
}

// ScheduledVariable is set to 1 in the environment of a run that the timer
// started.
const ScheduledVariable = "TELEPORT_UPDATE_SCHEDULED"

// transaction is an open one. Its owner holds the update lock.
type transaction struct {
	m     *Machine
	agent Agent
	j     *record
	// db is the agent's database, once it was opened: see database.
	db *backup.Database
	// took are the durations of the steps that this process has done.
	took map[string]time.Duration
	// letOthers gives back the lock of the updater that is replaced, while that is held.
	letOthers func()
}

// letGo gives back what a transaction holds, whatever became of it.
func (t *transaction) letGo() {
	t.releaseOthers()
	t.closeDatabase()
	t.agent.Close()
}

// config reads the configuration while the transaction is open, for what is to be
// written there: no agent may wait for a file that people edit. One that is lost
// is as the transaction found it. Where it cannot be read it is never overwritten, a
// person is needed, and the phase says what becomes of what was changed before.
func (t *transaction) config() (c state.Config, lost bool, err error) {
	c, lost, err = t.m.Host.Paths.LoadConfigOr(t.j.Config)
	if err != nil {
		row, _ := phaseOf(t.j.Phase)
		return c, false, &failure.NeedsPersonError{Err: failure.In(failure.State(row.cutOff(&t.j.Journal)), err)}
	}
	if lost {
		t.m.Host.Log.Warn(lostConfig, "file", t.m.Host.Paths.Config())
	}
	return c, lost, nil
}

// found is the configuration as the transaction found it. A journal of an older
// program does not have it, and then it is the one of today.
func (t *transaction) found() (state.Config, error) {
	if t.j.Config == "" {
		c, _, err := t.config()
		return c, err
	}
	return state.ParseConfig(t.j.Config)
}

const lostConfig = "updates.yaml was missing or empty and is written again from what the transaction began with"

// tellBesides has status say of the last transaction that the configuration was lost and
// written again, and name what is kept aside.
func (t *transaction) tellBesides(last *state.LastUpdate, lost bool) {
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

// Agent connects to the agent on a host that is up. Not to reach systemd is no
// reason to do without it: whoever cannot ask comes back later.
func (m *Machine) Agent(ctx context.Context) (Agent, error) {
	agent, err := m.Connect(ctx)
	if err != nil {
		return nil, failure.Unchanged("reach systemd: %w", err)
	}
	return agent, nil
}

// wrap is fmt.Errorf with the error as its last operand, and nil for nil.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format, append(args, err)...)
}

// warn logs an error that keeps nothing from going on; nil is none.
func (m *Machine) warn(err error, what string, attributes ...any) {
	if err != nil {
		m.Host.Log.Warn(what, append(attributes, "error", err)...)
	}
}

// Timestamp is the time as it is written down.
func (m *Machine) Timestamp() time.Time { return m.Now().UTC().Truncate(time.Second) }

// Active returns the tree that is linked according to updates.yaml; ok is false
// when there is none, or it is not whole.
func (m *Machine) Active(c state.Config) (versions.Tree, bool, error) {
	if c.Spec.ActiveVersion == "" {
		return versions.Tree{}, false, nil
	}
	return m.Host.Store.Lookup(c.Active())
}

// TreeOf is a tree as it is written down.
func TreeOf(t versions.Tree) state.Tree {
	return state.Tree{Release: t.Release, SHA256: t.SHA256, Dir: t.Dir, Programs: t.Programs}
}

// WaitLock takes a lock, and says for whom it waits. The timer's run does not wait.
func (m *Machine) WaitLock(ctx context.Context, path string) (unlock func(), err error) {
	patience := state.LockPatience
	if m.Scheduled {
		patience = 0
	}
	return state.LockTelling(ctx, path, patience, func(holder string) {
		m.Host.Log.Info("waiting for another updater", "holder", holder, "limit", patience)
	})
}

// LockUpdates takes the right to switch.
func (m *Machine) LockUpdates(ctx context.Context) (unlock func(), err error) {
	return m.WaitLock(ctx, m.Host.Paths.UpdateLock())
}

// Open is how a command begins to change the host: it takes the update lock,
// clears away what others left, closes a transaction that was cut off, and reads
// the configuration. The caller must give the lock back.
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
	if c, err = m.Host.Paths.LoadConfig(); err != nil {
		return state.Config{}, nil, err
	}
	if err := m.FinishMove(ctx, &c); err != nil {
		m.Host.Log.Warn("units are in two folders, and the next run goes on moving them", "error", err)
	}
	if m.Host.Store.HasLeftovers() {
		// It may be long until something new comes and retention is due.
		m.Retain(c)
	}
	return c, release, nil
}

// FinishMove completes a move of units into another folder, if one has begun: updates.yaml names both.
// The caller holds the update lock.
func (m *Machine) FinishMove(ctx context.Context, c *state.Config) error {
	from := c.Status.UnitsLeft
	if from == "" {
		return nil
	}
	agent, err := m.Agent(ctx)
	if err != nil {
		return err
	}
	defer agent.Close()
	m.Host.Paths.UnitDir = cmp.Or(c.Spec.UnitDir, layout.UnitDir)
	if err := m.Host.MoveUnits(ctx, agent, from); err != nil {
		return fmt.Errorf("move units from %s to %s: %w", from, m.Host.Paths.UnitDir, err)
	}
	c.Status.UnitsLeft = ""
	return c.Save(m.Host.Paths.Config())
}

// cleanUp removes what commands that were cut off left under temporary names:
// half a database or half a release takes room that the next attempt needs. The
// caller holds the update lock, so nobody is at work on any of it, but for
// downloads, which are left alone while another one runs. Failing to is a warning:
// it must not keep a host from being repaired.
func (m *Machine) cleanUp(ctx context.Context) {
	dirs := append([]string{m.Host.Paths.DataDir, m.Host.Paths.Original(), filepath.Dir(m.Host.Paths.Updater()), m.Host.Paths.LinkDir},
		m.Host.OwnUnits().Folders()...)
	backups, err := filepath.Glob(filepath.Join(m.Host.Paths.Versions(), "*", "backup"))
	// Versions that were being removed are left to retention.
	err = errors.Join(err, durable.CleanTempFiles(m.Host.Paths.Versions()), durable.CleanTempFiles(m.Host.Paths.Programs()))
	for _, dir := range append(dirs, backups...) {
		err = errors.Join(err, durable.CleanTemp(dir))
	}
	if m.Host.Store.HasStaging() {
		unlock, busy := state.Lock(ctx, m.Host.Paths.FetchLock(), 0)
		if busy == nil {
			err = errors.Join(err, m.Host.Store.CleanStaging())
			unlock()
		}
	}
	m.warn(err, "some leftovers of an interrupted command could not be removed")
}

// Retain removes what nothing needs any more; the version that failed last stays for
// its next attempt. Failing to is a warning: it must not make a transaction that succeeded
// look like one that did not.
func (m *Machine) Retain(c state.Config) { m.retain(m.Needed(c)) }

// Needed is what the configuration says to be needed.
func (m *Machine) Needed(c state.Config) versions.Needed {
	needed := versions.Needed{Releases: []versions.Release{c.Active(), c.Previous()}, LinkDirs: m.Host.Paths.LinkDirs()}
	if f := c.Status.Failed; f.Kept(m.Now()) {
		needed.Failed, needed.FailedSHA256 = f.Release(), f.SHA256
	}
	return needed
}

// DropFailed is Retain where room is wanted: the version that failed goes, too, unless
// it is to be kept. It reports whether anything was removed.
func (m *Machine) DropFailed(c state.Config, keep ...versions.Release) bool {
	return m.retain(versions.Needed{Releases: append(keep, c.Active(), c.Previous())})
}

func (m *Machine) retain(needed versions.Needed) (removed bool) {
	needed.LinkDirs = m.Host.Paths.LinkDirs()
	j, err := state.LoadJournal(m.Host.Paths.Journal())
	if err != nil {
		m.Host.Log.Warn("old versions stay, since the journal cannot be read", "error", err)
		return false
	}
	if j != nil {
		needed.Releases = append(needed.Releases, j.To.Release)
		if j.Packages.Version != nil {
			needed.Releases = append(needed.Releases, *j.Packages.Version)
		}
		if j.From != nil {
			needed.Releases = append(needed.Releases, j.From.Release)
		}
	}
	verdicts, err := m.Host.Store.Retain(needed)
	m.warn(err, "some old versions could not be removed")
	for _, v := range verdicts {
		if !v.Keep {
			m.Host.Log.Info("removed a version that nothing needs", "folder", v.Entry.Name, "reason", v.Reason)
			removed = true
		}
	}
	return removed
}

// StaysAsItIs says what a host is on that was not changed.
func StaysAsItIs(c state.Config) failure.State {
	if c.Spec.ActiveVersion == "" {
		return ""
	}
	return failure.State("the agent stays on " + OrNone(c.Spec.ActiveVersion))
}

// OrNone completes "the agent is on …": before the first enable nobody but the
// host knows.
func OrNone(v string) string {
	if v == "" {
		return "what it ran before"
	}
	return "version " + v
}
