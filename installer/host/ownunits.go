package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"teleport-update/internal/durable"
	"teleport-update/internal/layout"
	"teleport-update/systemd"
)

// A Timer is the part of systemd that the updater's own units need: to start the updater every ten
// minutes, to stop doing so, and to read its files again.
type Timer interface {
	StartTimer(ctx context.Context, name string, changed bool) error
	StopTimer(ctx context.Context, name string) error
	DaemonReload(ctx context.Context) error
}

// OwnUnits returns the updater's own service, timer and recovery.
func (h *Host) OwnUnits() systemd.Units {
	u := systemd.Units{
		UnitDir:   h.Paths.UnitDir,
		ConfigDir: h.configDir(),
		Binary:    h.Paths.Updater(),
		LinkDir:   h.Paths.LinkDir,
		DataDir:   h.Paths.DataDir,
		Programs:  h.Paths.UnusualPrograms(),
		Agent:     h.Paths.AgentUnit(),
	}
	// Nothing of ours stops, enables or disables another updater's timer by its name.
	u.RecoveryOnly = h.TimerLater || len(othersAt(h, layout.TeleportsUpdaterDir)) > 0 && u.OthersTimer()
	return u
}

// Installing is how the updater's own units are installed.
type Installing struct {
	EnableTimer bool // also a timer that somebody disabled
	// First says that updates.yaml names no active version. A first enable that comes to nothing removes its units again. A
	// host with an active version had units before, even if their files were removed: it counts on them, and on the drop-ins
	// that RemoveUnits takes away as well.
	First bool
}

// InstallUnits makes sure that the timer and the recovery exist and are enabled,
// durably: a transaction counts on the recovery. fresh reports whether a host that was never enabled has them from this call.
func (h *Host) InstallUnits(ctx context.Context, timer Timer, how Installing) (fresh bool, err error) {
	u := h.OwnUnits()
	u.EnableTimer = how.EnableTimer
	first := how.First && h.CheckNeverEnabled() == nil // updates.yaml may have been lost
	fresh = first && !u.Present()
	hadCopy := Exists(h.Paths.Updater())
	if !u.Packaged() && !h.hasCopy() {
		if err := h.installCopy(ctx); err != nil {
			return false, err
		}
	}
	changed, err := u.Write()
	switch {
	case err != nil:
	case !u.RecoveryOnly:
		err = timer.StartTimer(ctx, u.Timer(), changed)
	case changed:
		err = timer.DaemonReload(ctx)
	}
	if err == nil {
		return fresh, nil
	}
	err = fmt.Errorf("install the updater's own units: %w", err)
	switch {
	case fresh:
		err = errors.Join(err, h.RemoveUnits(ctx, timer))
	case first && !hadCopy: // and somebody else's unit is in the way
		err = errors.Join(err, durable.RemoveAll(filepath.Dir(h.Paths.Updater())))
	}
	return false, err
}

// RemoveUnits takes the updater's own units and copy away.
func (h *Host) RemoveUnits(ctx context.Context, timer Timer) error {
	u := h.OwnUnits()
	var err error
	if !u.RecoveryOnly {
		err = timer.StopTimer(ctx, u.Timer())
	}
	if err == nil {
		err = u.Erase()
	}
	if err == nil {
		err = timer.DaemonReload(ctx)
	}
	if err != nil {
		return fmt.Errorf("remove the updater's own units: %w", err)
	}
	return durable.RemoveMounted(filepath.Dir(h.Paths.Updater()))
}

// Label makes programs executable for systemd if SELinux decides on that. If it fails, the health
// watch shows whether the agent runs.
func (h *Host) Label(ctx context.Context, dir string) {
	if err := h.Labels.Restore(ctx, dir); err != nil {
		h.Log.Warn("systemd may not be allowed to run what is there", "folder", dir, "error", err)
	}
}
