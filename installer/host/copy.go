package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"teleport-update/internal/durable"
	"teleport-update/internal/regular"
	"teleport-update/internal/trust"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// The timer and the recovery run the fixed copy if no package brought the updater. It is the
// rescuer, so it is no program that has yet to show that it can make a transaction: see
// PromoteCopy. The previous copy stays beside it.

// FormerUpdater returns the path of the previous fixed copy.
func (h *Host) FormerUpdater() string { return h.Paths.Updater() + ".before" }

// hasCopy reports whether the fixed copy is a program of ours that root can trust.
func (h *Host) hasCopy() bool {
	path := h.Paths.Updater()
	if trust.Executable(path) != nil {
		return false
	}
	u, ok := versions.UpdaterAt(path)
	return ok && u.Ours
}

// PromoteCopy makes the running program the fixed copy, once it has finished a transaction or a
// person installs it, and keeps the previous copy. It does nothing if the program is older than the
// copy, or if the host's updater is a package's.
func (h *Host) PromoteCopy(ctx context.Context) error {
	if h.OwnUnits().Packaged() || !h.hasCopy() {
		return nil
	}
	path := h.Paths.Updater()
	if same, err := SameContent(h.Program, path); same || err != nil {
		return err
	}
	copied, _ := versions.UpdaterAt(path)
	running, _ := versions.UpdaterAt(h.Program)
	if copied.Version != "" && running.Version != "" && version.Compare(running.Version, copied.Version) < 0 {
		return nil
	}
	if err := durable.CloneFile(path, h.FormerUpdater()); err != nil {
		return fmt.Errorf("keep the updater of before at %s: %w", h.FormerUpdater(), err)
	}
	return h.installCopy(ctx)
}

// installCopy copies the running program, unless the copy is the same already.
func (h *Host) installCopy(ctx context.Context) error {
	path := h.Paths.Updater()
	if err := h.copyTo(path); err != nil {
		return fmt.Errorf("keep a copy of the updater at %s: %w", path, err)
	}
	h.Label(ctx, filepath.Dir(path))
	return nil
}

func (h *Host) copyTo(path string) error {
	if err := trust.Path(filepath.Dir(path)); err != nil {
		return err // the timer runs what is there, as root
	}
	if same, err := SameContent(h.Program, path); same || err != nil {
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
	if err := durable.CopyFile(path, from, 0o755); err != nil {
		_ = durable.RemoveEmpty(filepath.Dir(path)) // if it was made for the copy
		return err
	}
	return nil
}

// SameContent compares two files; a missing file at b differs.
func SameContent(a, b string) (bool, error) {
	ours, err := digestOf(a, 0)
	if err != nil {
		return false, err
	}
	theirs, err := digestOf(b, regular.NoLink)
	if _, odd := errors.AsType[*regular.UnsuitableError](err); odd || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return ours == theirs, err
}
