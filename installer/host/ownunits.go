package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
	"teleport-update/internal/trust"
	"teleport-update/systemd"
)

// A Timer is systemd as far as the updater's own units need it: to start the updater
// every ten minutes, to stop doing so, and to read its files again.
type Timer interface {
	StartTimer(ctx context.Context, name string, changed bool) error
	StopTimer(ctx context.Context, name string) error
	DaemonReload(ctx context.Context) error
}

// OwnUnits are the updater's own service, timer and recovery.
func (h *Host) OwnUnits() systemd.Units {
	return systemd.Units{
		UnitDir:   h.Paths.UnitDir,
		ConfigDir: h.configDir(),
		Binary:    h.Paths.Updater(),
		LinkDir:   h.Paths.LinkDir,
		DataDir:   h.Paths.DataDir,
		Agent:     h.Paths.AgentUnit(),
	}
}

// InstallUnits makes sure that the timer and the recovery exist and are enabled,
// durably: a transaction counts on the recovery. It reports whether there were none
// before.
func (h *Host) InstallUnits(ctx context.Context, timer Timer) (fresh bool, err error) {
	u := h.OwnUnits()
	fresh = !u.Present()
	hadCopy := Exists(h.Paths.Updater())
	if !u.Packaged() {
		if err := h.installCopy(); err != nil {
			return false, fmt.Errorf("keep a copy of the updater at %s: %w", h.Paths.Updater(), err)
		}
		h.Label(ctx, filepath.Dir(h.Paths.Updater()))
	}
	changed, err := u.Write()
	if err == nil {
		err = timer.StartTimer(ctx, u.Timer(), changed)
	}
	if err == nil {
		return fresh, nil
	}
	err = fmt.Errorf("install the updater's own units: %w", err)
	switch {
	case fresh:
		err = errors.Join(err, h.RemoveUnits(ctx, timer))
	case !hadCopy: // and somebody else's unit is in the way
		err = errors.Join(err, durable.RemoveAll(filepath.Dir(h.Paths.Updater())))
	}
	return false, err
}

// RemoveUnits takes the updater's own units and copy away.
func (h *Host) RemoveUnits(ctx context.Context, timer Timer) error {
	err := timer.StopTimer(ctx, h.OwnUnits().Timer())
	if err == nil {
		err = h.OwnUnits().Erase()
	}
	if err == nil {
		err = timer.DaemonReload(ctx)
	}
	if err != nil {
		return fmt.Errorf("remove the updater's own units: %w", err)
	}
	return durable.RemoveAll(filepath.Dir(h.Paths.Updater()))
}

// Label makes programs executable for systemd where SELinux decides on that. If it
// fails, whether the agent runs is for the health watch to say.
func (h *Host) Label(ctx context.Context, dir string) {
	if err := h.Labels.Restore(ctx, dir); err != nil {
		h.Log.Warn("systemd may not be allowed to run what is there", "folder", dir, "error", err)
	}
}

// installCopy copies the running program, unless the copy is the same already.
func (h *Host) installCopy() error {
	path := h.Paths.Updater()
	if err := trust.Path(filepath.Dir(path)); err != nil {
		return err // the timer runs what is there, as root
	}
	if same, err := sameContent(h.Program, path); same || err != nil {
		return err
	}
	from, err := os.Open(h.Program)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.CopyFile(path, from, 0o755)
}

// sameContent compares two files; one that is not there differs.
func sameContent(a, b string) (bool, error) {
	fa, err := os.Open(a)
	if err != nil {
		return false, err
	}
	defer fa.Close()
	fb, err := os.OpenFile(b, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer fb.Close()
	if info, err := fb.Stat(); err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	bufA, bufB := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errA := io.ReadFull(fa, bufA)
		m, errB := io.ReadFull(fb, bufB)
		if !bytes.Equal(bufA[:n], bufB[:m]) {
			return false, nil
		}
		switch ended := errors.Is(errA, io.EOF) || errors.Is(errA, io.ErrUnexpectedEOF); {
		case ended:
			return errors.Is(errB, io.EOF) || errors.Is(errB, io.ErrUnexpectedEOF), nil
		case errA != nil:
			return false, errA
		case errB != nil:
			return false, errB
		}
	}
}
