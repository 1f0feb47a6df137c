package transaction

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gofrs/flock"

	"teleport-update/installer/host"
	"teleport-update/internal/failure"
	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

// Another updater is replaced in three parts. From before the journal on its lock is held,
// so that a run of it waits. Nothing of it is changed before the new version is proven, so
// that undoing has nothing to put back. Then its files are noted in the journal and
// removed, our timer takes the place of its own, and its lock is given back: a run of it
// that waited finds no configuration, and does nothing.

// holdOthers takes the lock of the updater that is replaced, for as long as the transaction is
// open. It waits for one that is at work.
func (t *transaction) holdOthers(ctx context.Context, patience time.Duration) error {
	l := flock.New(host.OthersLock, flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDONLY))
	ok, err := l.TryLock()
	if err == nil && !ok && patience > 0 {
		t.m.Host.Log.Info("waiting for the updater that is replaced", "lock", host.OthersLock, "limit", patience)
		wait, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		ok, err = l.TryLockContext(wait, 100*time.Millisecond)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // it has none
	case ok:
		t.letOthers = func() { _ = l.Unlock() }
		return nil
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		return failure.Unchanged("lock %s: %w", host.OthersLock, err)
	}
	return failure.Unchanged("the updater that is to be replaced is at work (%s)", host.OthersLock).To("try again when it is done")
}

// holdOthersAgain is holdOthers for a recovery: the repair does not wait for long, and not at all
// if a user other than root holds the lock, since that updater runs as root.
func (t *transaction) holdOthersAgain(ctx context.Context, patience time.Duration) {
	if !t.j.Replaces {
		return
	}
	t.m.Host.TimerLater = true
	if procfs.Host().LockedByUsers(host.OthersLock) {
		patience = 0
	}
	t.m.warn(t.holdOthers(ctx, patience), "the transaction is closed without the lock of the updater that is replaced")
}

// replaceOthers removes the updater that the host had, once a version is proven. It can
// be cut off anywhere and begun again.
func (t *transaction) replaceOthers(ctx context.Context) error {
	if !t.j.Replaces {
		return nil
	}
	if len(t.j.Replaced) == 0 {
		files, err := t.m.Host.PlanReplaced()
		if err != nil {
			return fmt.Errorf("replace the other updater: %w", err)
		}
		if err := t.j.enterReplacing(files); err != nil {
			return err
		}
	}
	for _, name := range host.ReplacedTimers(t.j.Replaced) {
		if err := t.agent.StopTimer(ctx, name); err != nil {
			return fmt.Errorf("stop the other updater: %w", err)
		}
	}
	if err := t.m.Host.RemoveReplaced(t.j.Replaced); err != nil {
		return fmt.Errorf("remove the other updater: %w", err)
	}
	if err := t.agent.DaemonReload(ctx); err != nil {
		return err
	}
	t.m.Host.TimerLater = false
	if _, err := t.m.Host.InstallUnits(ctx, t.agent, host.Installing{EnableTimer: true}); err != nil {
		return err
	}
	t.releaseOthers()
	t.m.Host.Log.Info("the other updater is replaced", "files", len(t.j.Replaced))
	return nil
}

// recoverLater has the rest of a transaction closed once the agent has been started. Elsewhere the
// first run of our timer does so, but here another updater's timer is in its place.
func (t *transaction) recoverLater(ctx context.Context) {
	if !t.j.Replaces || !host.Exists(t.m.Host.Paths.Journal()) {
		return
	}
	_, _, err := t.agent.RunTransient(ctx, systemd.Transient{
		Description: "Close the open transaction of the Teleport agent",
		Argv:        append(append([]string{}, t.m.Command...), "recover"),
		RuntimeMax:  systemd.SwitchLimit,
		After:       t.m.Host.Paths.AgentUnit(),
	})
	t.m.warn(err, "the transaction stays open until somebody runs `teleport-updater update`")
}
