package installer

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

// Setup writes the updater's own units, and the fixed copy of the updater that
// they run, where no package did.
func (i *Installer) Setup(ctx context.Context) error {
	unlock, err := i.lockUpdates(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	conn, err := i.dial(ctx)
	if err != nil {
		return err
	}
	if conn != nil {
		defer conn.Close()
	}
	if _, err := i.installUnits(ctx, conn); err != nil {
		return err
	}
	i.Log.Info("the updater's own units are in place", "folder", i.Paths.UnitDir)
	return nil
}

// installUnits makes sure that the timer and the recovery exist and are
// enabled, durably: a transaction counts on the recovery. It reports whether
// there were none before.
func (i *Installer) installUnits(ctx context.Context, conn *systemd.Conn) (fresh bool, err error) {
	u := i.units()
	fresh = !u.Present()
	hadCopy := exists(i.Paths.Updater())
	if !u.Packaged() {
		if err := i.installCopy(); err != nil {
			return false, fmt.Errorf("keep a copy of the updater at %s: %w", i.Paths.Updater(), err)
		}
		i.label(ctx, filepath.Dir(i.Paths.Updater()))
	}
	if err := u.Install(ctx, conn); err != nil {
		err = fmt.Errorf("install the updater's own units: %w", err)
		switch {
		case fresh:
			err = errors.Join(err, i.removeUnits(ctx, conn))
		case !hadCopy: // and somebody else's unit is in the way
			err = errors.Join(err, durable.RemoveAll(filepath.Dir(i.Paths.Updater())))
		}
		return false, err
	}
	return fresh, nil
}

// removeUnits takes the updater's own units and copy away.
func (i *Installer) removeUnits(ctx context.Context, conn *systemd.Conn) error {
	if err := i.units().Remove(ctx, conn); err != nil {
		return fmt.Errorf("remove the updater's own units: %w", err)
	}
	return durable.RemoveAll(filepath.Dir(i.Paths.Updater()))
}

// installCopy copies the running program, unless the copy is the same already.
func (i *Installer) installCopy() error {
	path := i.Paths.Updater()
	if err := trust.Path(filepath.Dir(path)); err != nil {
		return err // the timer runs what is there, as root
	}
	if same, err := sameContent(i.Command[0], path); same || err != nil {
		return err
	}
	from, err := os.Open(i.Command[0])
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
