package transaction

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"teleport-update/health"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
)

// finishUninstall can be cut off anywhere and begun again.
func (t *transaction) finishUninstall(ctx context.Context, c state.Config) error {
	if t.isCalledOff() {
		return t.callOff(ctx, c)
	}
	// Where it goes on after a cut, updates.yaml may have been lost meanwhile.
	if c.Spec.ActiveVersion != "" || t.j.Phase == uninstalling {
		if err := t.goBack(ctx, c); err != nil {
			return err
		}
		if err := t.startOriginal(ctx); err != nil {
			if err = t.orCallOff(ctx, c, err); err != nil {
				return err
			}
		}
		t.startDependents(ctx)
	}
	if !t.keepsAgent() {
		// What came with the version of today, which may have come back until here.
		if err := host.RemovePlaced(t.m.Host); err != nil {
			return err
		}
	}
	t.m.warn(dropNeedless(ctx, t), "a backup of the agent's database stays", "folder", t.asked().KeepsIn)
	if err := t.m.keepBackups(ctx); err != nil {
		return err
	}
	if err := t.m.Host.RemoveUnits(ctx, t.agent); err != nil {
		return err
	}
	if !t.keepsAgent() {
		if err := t.bringOthersBack(ctx); err != nil {
			return err
		}
	}
	t.m.warn(state.RemoveTextfile(c.Spec.TextfileDir), "the metrics for node_exporter stay", "folder", c.Spec.TextfileDir)
	// First: the journal, which has this done again after a cut, is in the other folder.
	if err := t.m.Host.Store.RemovePrograms(); err != nil {
		return fmt.Errorf("remove the programs of versions: %w; run the command again", err)
	}
	if err := durable.RemoveMounted(t.m.Host.Paths.Versions(), filepath.Base(t.m.Host.Paths.Journal())); err != nil {
		return fmt.Errorf("remove the version store: %w; run the command again", err)
	}
	// Empty if no agent ever ran; anything in it is the agent's.
	_ = durable.RemoveEmpty(t.m.Host.Paths.DataDir)
	t.m.Host.Log.Info("the updater is uninstalled", "agent_kept", t.keepsAgent())
	return nil
}

// startOriginal makes the host run what the first enable found.
func (t *transaction) startOriginal(ctx context.Context) error {
	if t.keepsAgent() {
		return nil
	}
	if err := t.agent.DaemonReload(ctx); err != nil {
		return err
	}
	sight, err := t.agent.Look(ctx)
	if err != nil {
		return err
	}
	// Last, so that an agent runs whenever this is cut off.
	switch {
	case sight.LoadState == "not-found":
		if err := t.agent.Stop(ctx, atOnce); err != nil && sight.ActiveState != "inactive" {
			return fmt.Errorf("stop the agent: %w", err)
		}
		return t.agent.Disable(ctx)
	case t.asked().Proven: // what comes after it failed, and is no reason to restart the agent once more
		return nil
	case sight.State.Wanted(), t.stoppedHere(ctx):
		if err := t.proveOriginal(ctx, sight); err != nil {
			return err
		}
		return t.j.journalOriginalProven()
	}
	return nil
}

// uninstallAgain goes on with an uninstall that was cut off.
func (t *transaction) uninstallAgain(ctx context.Context) error {
	t.m.Host.Log.Warn("going on with an uninstall that was cut off", "begun", t.j.Started)
	c, err := t.found()
	if err == nil {
		err = t.finishUninstall(context.WithoutCancel(ctx), c)
	}
	switch {
	case errors.Is(err, health.ErrHostStopping):
		return errNeedsBoot
	case host.Absent(t.m.Host.Paths.Journal()):
		return err // it is over, also if it was called off
	case err != nil:
		return &failure.NeedsPersonError{Err: fmt.Errorf("uninstall: %w; the next run tries again",
			failure.In("the uninstall is not finished", err))}
	}
	return nil
}

// releaseAtBoot sees that the agent finds what it is started from after an
// uninstall was cut off; the rest of it is for the next run.
func (t *transaction) releaseAtBoot(ctx context.Context) error {
	t.m.Host.Log.Warn("going on with an uninstall that was cut off, before the agent starts", "begun", t.j.Started)
	c, err := t.found()
	if err != nil {
		return err
	}
	back := t.goBackAtBoot
	if t.isCalledOff() {
		back = t.placeToday
	}
	if err := back(ctx, c); err != nil {
		return &failure.NeedsPersonError{Err: fmt.Errorf("uninstall: %w; the next run tries again",
			failure.In("the uninstall is not finished", err))}
	}
	// Files go back without systemd, and the rest of the uninstall has it read them.
	_, err = t.reloadOrLeave(ctx)
	return err
}
