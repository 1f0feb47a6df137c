package transaction

import (
	"context"
	"errors"
	"path/filepath"

	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// Retain removes what nothing needs any more; the version that failed last stays for
// its next attempt. Failing to is a warning: it must not make a transaction that succeeded
// look like one that did not.
func (m *Machine) Retain(ctx context.Context, c state.Config) { m.retain(ctx, c, m.Needed(c)) }

// mayHaveDatabase are the versions of which one may be the only program that can read the agent's database: records of yesterday
// name an older one, and the tables are not what that was proven with. Where none are noted, it has the database if it runs.
func mayHaveDatabase(ctx context.Context, m *Machine, c state.Config) []version.Release {
	newer := mayHaveChanged(m, c)
	if len(newer) == 0 {
		return nil
	}
	if c.Status.ActiveSchema == "" {
		sight, err := m.Sight(ctx)
		if err == nil && sight.State != state.AgentFailing && sight.NRestarts == 0 {
			return nil
		}
	} else if now, err := m.Schema(ctx); err == nil && (now == "" || now == c.Status.ActiveSchema) {
		return nil
	}
	m.Host.Log.Info("newer versions stay, for the agent's database may be of one of them", "active", c.Spec.ActiveVersion)
	return newer
}

// Needed is what the configuration says to be needed.
func (m *Machine) Needed(c state.Config) versions.Needed {
	needed := versions.Needed{Releases: []versions.Release{c.Active(), c.Previous()}, LinkDirs: m.Host.Paths.LinkDirs()}
	if f := c.Status.Failed; f.Kept(m.Now()) {
		needed.Failed, needed.FailedSHA256 = f.Release(), f.SHA256
	}
	return needed
}

// DropFailed is Retain where room is wanted: the version that failed goes, too, unless
// it is to be kept. It reports whether anything was removed.
func (m *Machine) DropFailed(ctx context.Context, c state.Config, keep ...versions.Release) bool {
	return m.retain(ctx, c, versions.Needed{Releases: append(keep, c.Active(), c.Previous())})
}

func (m *Machine) retain(ctx context.Context, c state.Config, needed versions.Needed) (removed bool) {
	needed.LinkDirs = m.Host.Paths.LinkDirs()
	needed.Releases = append(needed.Releases, mayHaveDatabase(ctx, m, c)...)
	j, err := state.LoadJournal(m.Host.Paths.Journal())
	if err != nil {
		m.Host.Log.Warn("old versions stay, since the journal cannot be read", "error", err)
		return false
	}
	if j != nil {
		needed.Releases = append(needed.Releases, j.To.Release)
		if j.Packages.Version != nil {
			needed.Releases = append(needed.Releases, *j.Packages.Version)
		}
		if j.From != nil {
			needed.Releases = append(needed.Releases, j.From.Release)
		}
	}
	verdicts, err := m.Host.Store.Retain(needed)
	m.warn(err, "some old versions could not be removed")
	for _, v := range verdicts {
		if !v.Keep {
			m.Host.Log.Info("removed a version that nothing needs", "folder", v.Entry.Name, "reason", v.Reason)
			removed = true
		}
	}
	return removed
}

// cleanUp removes what commands that were cut off left under temporary names:
// half a database or half a release takes room that the next attempt needs. The
// caller holds the update lock, so nobody is at work on any of it, but for
// downloads, which are left alone while another one runs. Failing to is a warning:
// it must not keep a host from being repaired.
func (m *Machine) cleanUp(ctx context.Context) {
	dirs := append([]string{m.Host.Paths.DataDir, m.Host.Paths.Original(), filepath.Dir(m.Host.Paths.Updater()), m.Host.Paths.LinkDir},
		m.Host.OwnUnits().Folders()...)
	backups, err := filepath.Glob(filepath.Join(m.Host.Paths.Versions(), "*", "backup"))
	// Versions that were being removed are left to retention.
	err = errors.Join(err, durable.CleanTempFiles(m.Host.Paths.Versions()), durable.CleanTempFiles(m.Host.Paths.Programs()))
	err = errors.Join(err, state.DropUnfinished(m.Host.Paths))
	for _, dir := range append(dirs, backups...) {
		err = errors.Join(err, durable.CleanTemp(dir))
	}
	if m.Host.Store.HasStaging() {
		unlock, busy := state.Lock(ctx, m.Host.Paths.FetchLock(), 0)
		if busy == nil {
			err = errors.Join(err, m.Host.Store.CleanStaging())
			unlock()
		}
	}
	m.warn(err, "some leftovers of an interrupted command could not be removed")
}
