package transaction

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// Recover closes a transaction that was cut off, if there is one. At boot, before the agent has
// started, it repairs files only and leaves the rest to the timer's first run: a unit that is
// ordered before the agent, and asks systemd for the agent, would wait for itself.
func (m *Machine) Recover(ctx context.Context, boot bool) error {
	if IsClosed(m.Host.Paths) {
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

// RecoverKilled is Recover as soon as a process that worked on a transaction in a unit of its own
// has ended; result is systemd's result of that unit. The timer may be disabled, and nobody else
// would start an agent that was stopped. A process that ended by itself left nothing open, or said
// why. RecoverKilled waits for no lock, since the holder of the lock recovers first.
func (m *Machine) RecoverKilled(ctx context.Context, result string) error {
	if !slices.Contains([]string{"signal", "core-dump", "timeout", "watchdog", "oom-kill"}, result) || IsClosed(m.Host.Paths) {
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
	_, err := load(m.Host.Paths.Journal())
	if err := unread(err); err != nil {
		return err
	}
	if err := ofNewer(err); err != nil {
		return &failure.NeedsPersonError{Err: err}
	}
	m.cleanUp(ctx)
	m.removeEnded(ctx)
	j, err := m.loadOrSetAside(ctx)
	switch {
	case err == nil && j == nil:
		m.forgetMounts() // of a transaction that was killed after its end
		m.dropLeftover()
		err = startStopped(ctx, m)
	case err == nil || failure.Is[*unreadHistoryError](err):
	case host.Absent(m.Host.Paths.Journal()):
		again := m.startAgain(ctx)
		if again == nil {
			again = startStopped(ctx, m)
		}
		err = errors.Join(err, again)
	default: // a person has to look at the files; the next boot starts a stopped agent by the same links
		err = errors.Join(err, startStopped(ctx, m))
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
	t.m.Host.Log.Warn("closing a transaction that was cut off", "to", t.j.To.String(), "phase", string(t.j.Phase), "begun", t.j.Started)
	return recoveries()[row.live](t, ctx)
}

// recoverAtBoot puts files in their places; nothing is started and nothing is watched. It goes on
// without systemd if systemd does not answer.
func (m *Machine) recoverAtBoot(ctx context.Context) error {
	_, err := load(m.Host.Paths.Journal())
	if err := unread(err); err != nil {
		return err
	}
	if err := ofNewer(err); err != nil {
		// Nobody is needed yet: the first tick may find the newer updater.
		return fmt.Errorf("%w; the timer's first run has the newer one close it, where the active version carries it", err)
	}
	j, err := m.loadOrSetAside(ctx)
	if err != nil || j == nil {
		return err
	}
	agent, err := m.Connect(ctx)
	if errors.Is(err, systemd.ErrUnreachable) {
		agent, err = unreachable{noAgent{err}}, nil
	}
	if err != nil {
		return err
	}
	row, _ := phaseOf(j.Phase)
	t := &transaction{m: m, agent: agent, j: j}
	defer t.letGo()
	// An undoing that stops halfway leaves no agent: it goes on when systemd tells this process to end, as by a limit of the unit.
	ctx = context.WithoutCancel(ctx)
	t.holdOthersAgain(ctx, 0)
	err = recoveries()[row.boot](t, ctx)
	t.recoverLater(ctx)
	t.agent.RemoveEnded(ctx) // of a soft reboot
	return err
}

// startAgain starts an agent that is enabled and does not run, once the unreadable journal is set
// aside: the transaction may have stopped the agent, and the next boot starts the same by the same
// links.
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

// startStopped starts an agent that was stopped by a transaction that has left nothing else, or by a restart that did not start it
// again. It starts the units that went down with it, too. An agent that was started since is as somebody wants it. The note of the
// stop stays until the agent ran again.
func startStopped(ctx context.Context, m *Machine) error {
	note := m.Host.Paths.Stopped()
	if nothingStopped(m.Host.Paths) {
		return nil
	}
	ended, enabled, err := readStop(note)
	if err != nil {
		m.warn(err, "whether a transaction stopped the agent is not known")
		return nil
	}
	agent, err := m.Agent(ctx)
	if err != nil {
		return err
	}
	defer agent.Close()
	sight, err := agent.Look(ctx)
	if err != nil {
		return err
	}
	if ended != "" && sight.InvocationID == ended && !sight.started() {
		if sight.UnitFileState != enabled {
			return nil // somebody has disabled or masked it since
		}
		m.Host.Log.Warn("starting the agent, which an interrupted change of version or a failed restart left down")
		if err := agent.Start(ctx); err != nil {
			return failure.Unchanged("start the agent, which an interrupted change of version or a failed restart left down: %w", err).
				To("see `systemctl status %s`; each run tries again", m.Host.Paths.AgentUnit())
		}
	}
	return closeStop(ctx, m, agent)
}

// CheckReadable returns an error if the open journal could not be read, or if only a newer updater
// may act on it: then nothing is done about it, nor about anything that it may concern.
func (m *Machine) CheckReadable() error {
	_, err := load(m.Host.Paths.Journal())
	if err := unread(err); err != nil {
		return err
	}
	return ofNewer(err)
}

// unread returns the error of a load that could not read the journal, as of the disk or for want of
// memory, nil for any other. A transaction may be open: the journal is neither set aside nor written
// again.
func unread(err error) error {
	if err == nil || failure.Is[*state.JournalError](err) {
		return nil
	}
	return failure.Unchanged("%w", err).To("the next run reads it again; if the error stays, move the file away, " +
		"run `teleport-update update`, which closes the transaction by its backup, and look at `teleport-update status`")
}

// ofNewer returns the error of a load that read the journal of a newer updater, nil for any other.
func ofNewer(err error) error {
	if bad, ok := errors.AsType[*state.JournalError](err); ok && bad.Newer != nil {
		return failure.Unchanged("%s; the agent runs what is linked", bad.Reason).To("%s", bad.Newer.Remedy())
	}
	return nil
}

func (m *Machine) loadOrSetAside(ctx context.Context) (*openJournal, error) {
	j, err := load(m.Host.Paths.Journal())
	if j != nil && m.outdated(j) {
		return nil, m.setOutdatedAside(j)
	}
	if j != nil && m.leftBehind(j) {
		return nil, m.setCopyAside(j)
	}
	bad, unreadable := errors.AsType[*state.JournalError](err)
	if j != nil {
		return j, nil
	}
	if err := unread(err); err != nil {
		return nil, err
	}
	if j, err = m.rebuiltJournal(ctx, unreadable); err != nil || j != nil || !unreadable {
		return j, err
	}
	return nil, &failure.NeedsPersonError{Err: m.setAside(bad)}
}

// setAside deals with a journal that says nothing any more. If links and unit show that the host is
// on one version all the same, the one that was active last, the journal is kept aside and updates
// go on. Otherwise every step could be the wrong one, and a person has to look.
func (m *Machine) setAside(bad *state.JournalError) error {
	c, err := m.FreshConfig()
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
		return failure.In(failure.Aftermath(e.State.String()+", and nothing changes while it is there"), e)
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

// linkedWhole returns the active version, or the linked one if updates.yaml names none, and the
// problems of links and unit, which are not that version's.
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
