package installer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"teleport-update/health"
	"teleport-update/internal/durable"
	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

// Recover closes a transaction that was cut off, if there is one. At boot, that
// is before the agent has started, it repairs files only and leaves the rest to
// the timer's first run: asking systemd for the agent from a unit that is
// ordered before the agent would wait for itself.
func (i *Installer) Recover(ctx context.Context, boot bool) error {
	if !exists(i.Paths.Journal()) {
		return nil
	}
	if !boot {
		if err := i.recoverApart(ctx); err != nil {
			return err
		}
	}
	unlock, err := i.lockUpdates(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if boot {
		return i.recoverAtBoot(ctx)
	}
	i.clearAway(ctx)
	return i.recoverLocked(ctx)
}

func (i *Installer) openJournal() (*journal, error) {
	j, err := loadJournal(i.Paths.Journal())
	var bad *JournalError
	if !errors.As(err, &bad) {
		return j, err
	}
	if bad.Newer {
		return nil, &NeedsPersonError{fmt.Errorf("%w; nothing was changed", bad)}
	}
	return nil, &NeedsPersonError{i.setAside(bad)}
}

// setAside deals with a journal that says nothing any more. Links and unit tell
// whether the host is on one version all the same, the one that was active last:
// then the journal is kept aside and updates go on. Else every step could be the
// wrong one, and a person has to look.
func (i *Installer) setAside(bad *JournalError) error {
	c, err := loadConfig(i.Paths.Config())
	if err != nil {
		return fmt.Errorf("%w; nothing was changed: %w", bad, err)
	}
	problems := []string{"no version was active yet"}
	if tree, ok, err := i.active(c); err != nil {
		return fmt.Errorf("%w; nothing was changed: %w", bad, err)
	} else if ok {
		if problems, err = i.linkProblems(tree); err != nil {
			return fmt.Errorf("%w; nothing was changed: %w", bad, err)
		}
	} else if v := c.Spec.ActiveVersion; v != "" {
		problems = []string{"version " + v + " is not whole on disk"}
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w; nothing was changed, and nothing will be as long as it is there: %s; "+
			"once the links in %s and the unit %s are those of the version that is to run, remove the journal",
			bad, strings.Join(problems, "; "), i.Paths.LinkDir, i.Paths.Unit())
	}
	aside := i.Paths.Journal() + ".unreadable-" + i.Now().UTC().Format("20060102T150405Z")
	told := fmt.Errorf("%w; it is kept aside as %s, and updates go on: links and unit are those of version %s; "+
		"see that the agent works, for a switch may have been cut off while its database was of another version", bad, aside, c.Spec.ActiveVersion)
	c.Status.LastUpdate = &LastUpdate{
		Time: i.timestamp(), Target: c.Spec.ActiveVersion, TargetEdition: c.Status.ActiveEdition, Result: Interrupt, Error: told.Error(),
	}
	if err := c.save(i.Paths.Config()); err != nil {
		return errors.Join(bad, err)
	}
	if err := durable.Rename(i.Paths.Journal(), aside); err != nil {
		return fmt.Errorf("%w; keep it aside: %w", bad, err)
	}
	return told
}

// recoverLocked closes an open transaction on a host that is up.
func (i *Installer) recoverLocked(ctx context.Context) error {
	j, err := i.openJournal()
	if err != nil || j == nil {
		return err
	}
	conn, err := i.dial(ctx)
	if err != nil {
		return err
	}
	if conn != nil {
		defer conn.Close()
	}
	if j.Phase == uninstalling {
		return i.uninstallAgain(ctx, j, conn)
	}
	i.Log.Warn("closing a switch that was cut off", "to", j.To.String(), "phase", string(j.Phase), "begun", j.Started)
	if j.Phase == proven {
		return i.finish(ctx, j, conn)
	}
	if j.Phase == switched && !j.Rewatched && j.BootID == procfs.BootID() {
		held, err := i.watchAgain(ctx, j, conn)
		if err != nil {
			return err
		}
		if held {
			return i.finish(ctx, j, conn)
		}
	} else if j.Phase != rollingBack && j.Phase != restored {
		j.Interrupted = true
	}
	// Undoing is not cut short by what cut the switch short.
	if err := i.undo(context.WithoutCancel(ctx), j, conn); err != nil {
		if errors.Is(err, health.ErrHostStopping) {
			return &NeedsBootError{}
		}
		return &NeedsPersonError{fmt.Errorf("undo the switch to %s: %w; the next run tries again", j.To, err)}
	}
	i.Log.Info("the switch was undone", "to", j.To.String(), "reason", j.reason())
	return nil
}

// uninstallAgain goes on with an uninstall that was cut off.
func (i *Installer) uninstallAgain(ctx context.Context, j *journal, conn *systemd.Conn) error {
	i.Log.Warn("going on with an uninstall that was cut off", "begun", j.Started)
	c, err := loadConfig(i.Paths.Config())
	if err == nil {
		err = i.finishUninstall(context.WithoutCancel(ctx), c, conn, j.KeepAgent)
	}
	if err != nil {
		return &NeedsPersonError{fmt.Errorf("uninstall: %w; the next run tries again", err)}
	}
	return nil
}

// watchAgain gives a switch that was cut off while the new version ran a second
// watch, once: the cut says nothing about the version.
func (i *Installer) watchAgain(ctx context.Context, j *journal, conn *systemd.Conn) (held bool, err error) {
	if conn == nil || !j.Agent.State.manageable() {
		j.Interrupted = true
		return false, nil
	}
	u, err := conn.Unit(ctx, AgentUnit)
	if err != nil {
		return false, err
	}
	if !executesFrom(u.MainPID, j.To.Dir) && !executesFrom(uint32(procfs.PIDFile(u.PIDFile)), j.To.Dir) {
		j.Interrupted = true
		return false, nil
	}
	j.Rewatched = true
	if err := j.save(i.Paths.Journal()); err != nil {
		return false, err
	}
	c, err := loadConfig(i.Paths.Config())
	if err != nil {
		return false, err
	}
	spec := c.Spec.Health
	if j.Commit.Spec != nil {
		spec = j.Commit.Spec.Health
	}
	w, err := i.watch(ctx, conn, j.To.Dir, spec)
	if err != nil {
		return false, err
	}
	i.Log.Info("watching the agent once more", "version", j.To.String(), "window", w.Window)
	var unhealthy *health.UnhealthyError
	switch _, err = health.Prove(ctx, conn, health.Running, w); {
	case err == nil:
		i.Log.Info("the agent holds", "version", j.To.String())
		return true, i.enterProven(j)
	case errors.Is(err, health.ErrHostStopping):
		return false, &NeedsBootError{}
	case ctx.Err() != nil:
		return false, fmt.Errorf("close the switch to %s: interrupted (%w); the next run goes on with it", j.To, context.Cause(ctx))
	case errors.As(err, &unhealthy):
		i.Log.Warn("rolling back", "version", j.To.String(), "error", err)
		j.Error, j.Blame = err.Error(), true
		j.heed(unhealthy)
		return false, nil
	}
	return false, err
}

// executesFrom reports whether a process executes a program of a folder, or one
// that was there and has been deleted since.
func executesFrom(pid uint32, dir string) bool {
	p := procfs.Host().Process(int(pid))
	real, err := filepath.EvalSymlinks(dir)
	return p != nil && err == nil && p.CameFrom(real)
}

// reassertAtBoot sees that the agent finds what it is started from, in case it
// was taken away after the version was proven.
func (i *Installer) reassertAtBoot(ctx context.Context, j *journal) error {
	tree, ok, err := i.store().Lookup(j.target())
	if err != nil || !ok {
		return err // finish says so, once the agent has had its chance to start
	}
	conn, err := i.dial(ctx)
	if err != nil {
		return err
	}
	if conn != nil {
		defer conn.Close()
	}
	return errors.Join(i.putBackKept(j), i.reassert(ctx, j, conn, tree, true))
}

// releaseAtBoot sees that the agent finds what it is started from after an
// uninstall was cut off; the rest of it is for the next run.
func (i *Installer) releaseAtBoot(ctx context.Context, j *journal) error {
	i.Log.Warn("going on with an uninstall that was cut off, before the agent starts", "begun", j.Started)
	c, err := loadConfig(i.Paths.Config())
	if err != nil {
		return err
	}
	if j.KeepAgent {
		err = i.leavePlainFiles(ctx, c)
	} else {
		err = i.putBackFiles(ctx)
	}
	if err != nil {
		return &NeedsPersonError{fmt.Errorf("uninstall: %w; the next run tries again", err)}
	}
	conn, err := i.dial(ctx)
	if err != nil || conn == nil {
		return err
	}
	defer conn.Close()
	return conn.DaemonReload(ctx)
}

// recoverAtBoot puts the files back; nothing is started and nothing is watched.
func (i *Installer) recoverAtBoot(ctx context.Context) error {
	j, err := i.openJournal()
	if err != nil || j == nil {
		return err
	}
	switch j.Phase {
	case restored:
		return nil // nothing about the files is open
	case proven:
		return i.reassertAtBoot(ctx, j)
	case uninstalling:
		return i.releaseAtBoot(ctx, j)
	case begun, switched:
		j.Interrupted = true
	}
	conn, err := i.dial(ctx)
	if err != nil {
		return err
	}
	if conn != nil {
		defer conn.Close()
	}
	i.Log.Warn("putting the old version back before the agent starts", "to", j.To.String(), "phase", string(j.Phase))
	j.OldServes = false // nothing serves yet
	if err := i.undoFiles(ctx, j, conn, false); err != nil {
		return &NeedsPersonError{fmt.Errorf("undo the switch to %s at boot: %w; the next run tries again", j.To, err)}
	}
	if conn != nil {
		return conn.ResetFailed(ctx, AgentUnit)
	}
	return nil
}
