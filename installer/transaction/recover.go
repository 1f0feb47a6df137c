package transaction

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/health"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// Recover closes a transaction that was cut off, if there is one. At boot, that
// is before the agent has started, it repairs files only and leaves the rest to
// the timer's first run: asking systemd for the agent from a unit that is
// ordered before the agent would wait for itself.
func (m *Machine) Recover(ctx context.Context, boot bool) error {
	if !host.Exists(m.Host.Paths.Journal()) {
		return nil
	}
	if !boot {
		if err := m.recoverTransient(ctx); err != nil {
			return err
		}
	}
	unlock, err := m.LockUpdates(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if boot {
		return m.recoverAtBoot(ctx)
	}
	return m.recoverLive(ctx)
}

// RecoverKilled is Recover as soon as a process that worked on a transaction in a unit of
// its own has ended, with the result that systemd tells of it: the timer may be disabled,
// and nobody else would start an agent that was stopped. One that ended by itself left
// nothing open, or said why; and nobody is waited for, since whoever has the lock recovers
// first.
func (m *Machine) RecoverKilled(ctx context.Context, result string) error {
	if !slices.Contains([]string{"signal", "core-dump", "timeout", "watchdog", "oom-kill"}, result) || !host.Exists(m.Host.Paths.Journal()) {
		return nil
	}
	agent, err := m.Agent(ctx)
	if err != nil {
		return err
	}
	stopping, err := agent.Stopping(ctx)
	agent.Close()
	if err != nil || stopping {
		return err // the next boot puts the files back
	}
	unlock, err := state.Lock(ctx, m.Host.Paths.UpdateLock(), 0)
	if failure.Is[*state.BusyError](err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	return m.recoverLive(ctx)
}

// recoverLive closes an open transaction on a host that is up. Before that it clears
// away what others left, unless a newer updater may still need it.
func (m *Machine) recoverLive(ctx context.Context) error {
	if err := m.CheckReadable(); err != nil {
		return &failure.NeedsPersonError{Err: err}
	}
	m.cleanUp(ctx)
	j, err := m.loadOrSetAside(ctx)
	if err == nil && j == nil {
		m.forgetMounts() // of one that was killed after its end
		m.dropLeftover()
	}
	if err != nil && !host.Exists(m.Host.Paths.Journal()) {
		err = errors.Join(err, m.startAgain(ctx))
	}
	if err != nil || j == nil {
		return err
	}
	agent, err := m.Agent(ctx)
	if err != nil {
		return err
	}
	row, _ := phaseOf(j.Phase)
	t := &transaction{m: m, agent: agent, j: j}
	defer t.letGo()
	t.holdOthersAgain(ctx, state.LockPatience)
	if j.Uninstall == nil { // which tells its own story
		t.m.Host.Log.Warn("closing a transaction that was cut off", "to", t.j.To.String(), "phase", string(t.j.Phase), "begun", t.j.Started)
	}
	return row.live.do(t, ctx)
}

// recoverAtBoot puts files in their places; nothing is started and nothing is
// watched. Without systemd it does so too, where that does not answer.
func (m *Machine) recoverAtBoot(ctx context.Context) error {
	if err := m.CheckReadable(); err != nil {
		// Nobody is needed yet: the first tick may find the newer updater.
		return fmt.Errorf("%w; the timer's first run has the newer one close it, where the active version carries it", err)
	}
	j, err := m.loadOrSetAside(ctx)
	if err != nil || j == nil {
		return err
	}
	agent, err := m.Connect(ctx)
	if errors.Is(err, systemd.ErrUnreachable) {
		agent, err = unreachable{untold{err}}, nil
	}
	if err != nil {
		return err
	}
	row, _ := phaseOf(j.Phase)
	t := &transaction{m: m, agent: agent, j: j}
	defer t.letGo()
	t.holdOthersAgain(ctx, 0)
	err = row.boot.do(t, ctx)
	t.recoverLater(ctx)
	return err
}

// startAgain starts an agent that is enabled and does not run, once the journal that could
// not be read is set aside: it may have been stopped for the transaction, and the next boot
// starts the same by the same links.
func (m *Machine) startAgain(ctx context.Context) error {
	agent, err := m.Agent(ctx)
	if err != nil {
		return err
	}
	defer agent.Close()
	sight, err := agent.Look(ctx)
	if err != nil || sight.State != state.AgentStopped || sight.UnitFileState != "enabled" {
		return err
	}
	m.Host.Log.Warn("starting the agent, which is down and is enabled at boot")
	return agent.Start(ctx)
}

// CheckReadable returns an error where only a newer updater may act on the open
// journal: then nothing is done about it, nor about anything that it may be about.
func (m *Machine) CheckReadable() error {
	_, err := load(m.Host.Paths.Journal())
	if bad, ok := errors.AsType[*state.JournalError](err); ok && bad.Newer != nil {
		return failure.Unchanged("%s; the agent runs what is linked", bad.Reason).To("%s", bad.Newer.Remedy())
	}
	return nil
}

func (m *Machine) loadOrSetAside(ctx context.Context) (*record, error) {
	j, err := load(m.Host.Paths.Journal())
	if j != nil && m.outdated(j) {
		return nil, m.setOutdatedAside(j)
	}
	if j != nil && m.leftBehind(j) {
		return nil, m.setCopyAside(j)
	}
	bad, unreadable := errors.AsType[*state.JournalError](err)
	if err != nil && !unreadable || j != nil {
		return j, err
	}
	if j, err = m.retold(ctx, unreadable); err != nil || j != nil || !unreadable {
		return j, err
	}
	return nil, &failure.NeedsPersonError{Err: m.setAside(bad)}
}

// setAside deals with a journal that says nothing any more. Links and unit tell
// whether the host is on one version all the same, the one that was active last:
// then the journal is kept aside and updates go on. Else every step could be the
// wrong one, and a person has to look.
func (m *Machine) setAside(bad *state.JournalError) error {
	c, err := m.Host.Paths.LoadConfig()
	lost := errors.Is(err, state.ErrEmpty)
	if err != nil && !lost {
		return failure.Unchanged("%w", bad).To("%v", err)
	}
	release, problems, err := m.linkedWhole(c)
	if err != nil {
		return failure.Unchanged("%w", bad).To("%v", err)
	}
	if len(problems) > 0 {
		e := failure.Unchanged("%w", bad).
			To("%s; once the links in %s and the unit %s are those of the version that is to run, remove the journal",
				strings.Join(problems, "; "), m.Host.Paths.LinkDir, m.Host.Paths.Unit())
		return failure.In(failure.State(e.State.String()+", and nothing changes while it is there"), e)
	}
	aside := m.unreadableName()
	told := fmt.Errorf("%w; it is kept aside as %s, and updates go on: links and unit are those of version %s; "+
		"see that the agent works, for a transaction may have been cut off while its database was of another version",
		bad, aside, release.Version)
	if c.Spec.ActiveVersion != "" {
		c.Status.LastUpdate = &state.LastUpdate{
			Time: m.Timestamp(), Target: release.Version, TargetEdition: release.Edition, Result: state.Interrupt, Error: told.Error(),
		}
		if err := c.Save(m.Host.Paths.Config()); err != nil {
			return errors.Join(bad, err)
		}
	}
	if err := durable.Rename(m.Host.Paths.Journal(), aside); err != nil {
		return fmt.Errorf("%w; keep it aside: %w", bad, err)
	}
	return told
}

// linkedWhole returns the active version, or where updates.yaml names none, the one that is linked, and
// what of links and unit is not that version's.
func (m *Machine) linkedWhole(c state.Config) (release version.Release, problems []string, err error) {
	release = c.Active()
	if release.Version == "" {
		program, _ := filepath.EvalSymlinks(filepath.Join(m.Host.Paths.LinkDir, host.AgentName)) // one that leads nowhere leads to no release
		linked, ok := m.Host.Store.ReleaseOf(program)
		if !ok {
			return release, []string{"no version was active yet"}, nil
		}
		release = linked
	}
	tree, ok, err := m.Host.Store.Lookup(release)
	if err != nil {
		return release, nil, err
	}
	if !ok {
		return release, []string{"version " + release.Version + " is not whole on disk"}, nil
	}
	problems, err = m.Host.Problems(tree)
	return release, problems, err
}

// unreadableName is where a journal goes that cannot be read.
func (m *Machine) unreadableName() string {
	return m.Host.Paths.Journal() + ".unreadable-" + m.Now().UTC().Format("20060102T150405Z")
}

func (t *transaction) undoUnknown(ctx context.Context) error {
	if err := t.j.setVerdict(state.AgainstInterruption, ""); err != nil {
		return err
	}
	return t.undoAndTell(ctx)
}

// undoAndTell is not cut short by what cut the transaction short.
func (t *transaction) undoAndTell(ctx context.Context) error {
	err := t.undo(context.WithoutCancel(ctx))
	if errors.Is(err, health.ErrHostStopping) {
		return errNeedsBoot
	}
	if err != nil {
		return &failure.NeedsPersonError{Err: fmt.Errorf("undo the transaction to %s: %w; the next run tries again", t.j.To, err)}
	}
	told := []any{"to", t.j.To.String(), "reason", t.reason()}
	if kept := t.keptAside(); len(kept) > 0 {
		told = append(told, "aside", strings.Join(kept, ", ")) // maybe by another process, at boot
	}
	t.m.Host.Log.Info("the transaction was undone", told...)
	return nil
}

// watchAgain gives a transaction that was cut off while the new version ran a second
// watch, once: the cut says nothing about the version.
func (t *transaction) watchAgain(ctx context.Context) error {
	sight, err := t.agent.Look(ctx)
	if err != nil {
		return err
	}
	if t.j.Watch.Again || t.j.BootID != t.m.BootID() || !t.j.Agent.State.Wanted() || !sight.runsFrom(t.j.To.ProgramsDir()) {
		return t.undoUnknown(ctx)
	}
	if t.runsMasked(sight) {
		return t.leftOpen(errMasked)
	}
	spec, err := t.healthSpec()
	if err != nil {
		return err
	}
	// It is watched once more and not again, so all that the watch needs is at hand.
	if err := t.j.noteSecondWatch(true); err != nil {
		return err
	}
	w := watchOf(t.j.To.ProgramsDir(), spec, sight)
	t.m.Host.Log.Info("watching the agent once more", "version", t.j.To.String(), "window", w.Window)
	_, err = t.agent.Prove(ctx, health.Running, w)
	unhealthy, isUnhealthy := errors.AsType[*health.UnhealthyError](err)
	switch {
	case err == nil:
		t.m.Host.Log.Info("the agent is healthy", "version", t.j.To.String())
		if err := t.enterProven(); err != nil {
			return err
		}
		return t.finish(ctx)
	case errors.Is(err, health.ErrHostStopping):
		return errNeedsBoot
	case ctx.Err() != nil:
		return fmt.Errorf("close the transaction to %s: interrupted (%w); the next run goes on with it", t.j.To, context.Cause(ctx))
	case outOfReach(err):
		return errors.Join(t.leftOpen(err), t.j.noteSecondWatch(false))
	case !isUnhealthy:
		return err
	}
	t.m.Host.Log.Warn("rolling back", "version", t.j.To.String(), "error", err)
	if err := t.j.setUnhealthy(err.Error(), unhealthy); err != nil {
		return err
	}
	return t.undoAndTell(ctx)
}

// leftOpen is what becomes of a transaction when systemd cannot be asked any more: nobody
// knows what the agent does, and nothing is done about it before it is known.
func (t *transaction) leftOpen(why error) error {
	return &failure.NeedsPersonError{Err: fmt.Errorf("the transaction to %s is left open, as it is: %w; the next run goes on with it", t.j.To,
		why)}
}

// leave is for phases in which nothing about the files is open.
func (t *transaction) leave(context.Context) error { return nil }

// undoAtBoot puts links, unit and database back.
func (t *transaction) undoAtBoot(ctx context.Context) error {
	if notThere := t.awaits(ctx); notThere != nil {
		t.m.Host.Log.Warn("what goes back is not there yet; nothing is changed until the first run of the timer", "to", t.j.To.String(),
			"error", notThere)
		return t.keepPair(ctx)
	}
	if t.j.Phase != rollingBack {
		if err := t.j.setVerdict(state.AgainstInterruption, ""); err != nil {
			return err
		}
	}
	if err := t.j.setOldServes(false); err != nil {
		return err
	}
	t.m.Host.Log.Warn("putting the old version back before the agent starts", "to", t.j.To.String(), "phase", string(t.j.Phase))
	if err := t.undoSteps(ctx, true); err != nil {
		return &failure.NeedsPersonError{Err: fmt.Errorf("undo the transaction to %s at boot: %w; the next run tries again", t.j.To, err)}
	}
	if err := t.agent.ResetFailed(ctx); err != nil && !t.j.Agent.ReloadOwed {
		return err
	}
	return nil
}
