package installer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

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
	unlock, err := i.lockUpdates(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if boot {
		return i.recoverAtBoot(ctx)
	}
	return i.recoverLocked(ctx)
}

func (i *Installer) openJournal() (*journal, error) {
	j, err := loadJournal(i.Paths.Journal())
	var bad *JournalError
	if !errors.As(err, &bad) {
		return j, err
	}
	return nil, &NeedsPersonError{fmt.Errorf("%w; nothing was changed: the links in %s and the unit %s say which version runs; once they agree, remove the journal",
		bad, i.Paths.LinkDir, i.Paths.Unit())}
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
	i.Log.Warn("closing a switch that was cut off", "to", j.To.String(), "phase", string(j.Phase), "begun", j.Started)
	if j.Phase == proven {
		return i.finish(ctx, j, conn)
	}
	if j.Phase == switched && !j.Rewatched && j.BootID == bootID() {
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
		if errors.Is(err, systemd.ErrHostStopping) {
			return &NeedsBootError{}
		}
		return &NeedsPersonError{fmt.Errorf("undo the switch to %s: %w; the next run tries again", j.To, err)}
	}
	i.Log.Info("the switch was undone", "to", j.To.String(), "error", j.Error)
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
	if u.MainPID == 0 || !executesFrom(u.MainPID, j.To.Dir) {
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
	health := c.Spec.Health
	if j.Commit.Spec != nil {
		health = j.Commit.Spec.Health
	}
	w, err := i.watch(ctx, conn, j.To.Dir, health)
	if err != nil {
		return false, err
	}
	switch _, err = conn.WatchRunning(ctx, w); {
	case errors.Is(err, systemd.ErrHostStopping):
		return false, &NeedsBootError{}
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil:
		j.Error, j.Blame = err.Error(), true
		return false, nil
	}
	return true, j.enter(i.Paths.Journal(), proven)
}

// executesFrom reports whether a process executes a program inside dir.
func executesFrom(pid uint32, dir string) bool {
	exe, err := os.Readlink(filepath.Join("/proc", fmt.Sprint(pid), "exe"))
	return err == nil && strings.HasPrefix(exe, dir+"/")
}

// recoverAtBoot puts the files back; nothing is started and nothing is watched.
func (i *Installer) recoverAtBoot(ctx context.Context) error {
	j, err := i.openJournal()
	if err != nil || j == nil {
		return err
	}
	switch j.Phase {
	case proven, restored:
		return nil // nothing about the files is open
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
