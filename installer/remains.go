package installer

import (
	"context"
	"errors"
	"path/filepath"

	"teleport-update/internal/durable"
)

// clearAway removes what commands that were cut off left under temporary names:
// half a database or half a release takes room that the next attempt needs. The
// caller holds the update lock, so nobody is at work on any of it, but for the
// remains of a download, which are left alone while another one runs. Failing to
// is a warning: it must not keep a host from being repaired.
func (i *Installer) clearAway(ctx context.Context) {
	dirs := append([]string{i.Paths.DataDir, i.Paths.Original(), filepath.Dir(i.Paths.Updater()), i.Paths.LinkDir}, i.units().Folders()...)
	backups, err := filepath.Glob(filepath.Join(i.Paths.Versions(), "*", "backup"))
	// Versions that were being removed are left to retention.
	err = errors.Join(err, durable.CleanTempFiles(i.Paths.Versions()))
	for _, dir := range append(dirs, backups...) {
		err = errors.Join(err, durable.CleanTemp(dir))
	}
	if store := i.store(); store.HasStaging() {
		unlock, busy := lock(ctx, i.Paths.fetchLock(), 0)
		if busy == nil {
			err = errors.Join(err, store.CleanStaging())
			unlock()
		}
	}
	if err != nil {
		i.Log.Warn("not all that an interrupted command left could be removed", "error", err)
	}
}
