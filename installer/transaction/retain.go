package transaction

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"

	"teleport-update/backup"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// Retain removes versions that nothing needs any more; the version that failed last stays for its
// next attempt. A failure is only a warning: it must not make a transaction that succeeded look
// like one that did not.
func (m *Machine) Retain(ctx context.Context, c state.Config) { m.retain(ctx, c, m.Needed(c)) }

// mayHaveDatabase returns the versions that may be the only program that can read the agent's database: records of yesterday name an older
// one, and the tables are not those that it was proven with. If no tables are noted, the active version has the database if it runs.
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

// Needed returns the versions that the configuration needs.
func (m *Machine) Needed(c state.Config) versions.Needed {
	needed := versions.Needed{Releases: []versions.Release{c.Active(), c.Previous()}, LinkDirs: m.Host.Paths.LinkDirs()}
	if f := c.Status.Failed; f.Kept(m.Now()) {
		needed.Failed, needed.FailedSHA256 = f.Release(), f.SHA256
	}
	return needed
}

// DropFailed is Retain for a lack of room: the version that failed goes, too, unless it is to be
// kept. It reports whether anything was removed.
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

// cleanUp removes files that commands left under temporary names when they were cut off: half a
// database or half a release takes room that the next attempt needs. The caller holds the update
// lock, so nobody is at work on them, except on downloads, which are left alone while another one
// runs. A failure is only a warning: it must not keep a host from being repaired.
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
	if host.Absent(m.Host.Paths.Journal()) {
		err = errors.Join(err, m.dropSpares())
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

// The store goes with an uninstall, and each backup in it may be the only database that an
// agent of its version could ever start with.

// aBackup is a complete backup.
type aBackup struct {
	dir    string
	meta   backup.Meta
	schema backup.Schema
	name   string // of the host and the cluster whose agent it was; empty if it names none
}

// keptAs reports whether a backup that is kept already makes it needless to keep b. A backup that an earlier
// uninstall kept is older: its certificates may have expired, or the host may have joined another cluster since.
func (b aBackup) keptAs(kept aBackup) bool {
	return b.sameAgents(kept) && kept.meta.Proxy == b.meta.Proxy && !kept.meta.Created.Before(b.meta.Created)
}

// sameAgents reports whether two backups are of the same tables and of the same agent. The database of another host is never restored: it
// makes no backup of this one needless.
func (b aBackup) sameAgents(other aBackup) bool {
	return other.schema == b.schema && other.name == b.name
}

// completeBackups returns the backups of the store, the newest first. A folder that is no backup,
// or cannot be read as one, is left out; unread has those that cannot be read.
func (m *Machine) completeBackups(ctx context.Context) (all []aBackup, unread []string, err error) {
	pattern := filepath.Join(m.Host.Paths.Versions(), "*", "backup")
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		return nil, nil, err
	}
	// The second name that a transaction left may be the only one of a backup.
	return m.completeOf(ctx, append(dirs, m.Host.Paths.Rollback()))
}

// completeOf is completeBackups of these folders.
func (m *Machine) completeOf(ctx context.Context, dirs []string) (all []aBackup, unread []string, err error) {
	for _, dir := range dirs {
		meta, err := backup.MetaOf(dir)
		if err == nil {
			b := aBackup{dir: dir, meta: meta}
			if b.schema, err = backup.SchemaOf(ctx, dir); err == nil {
				b.name, err = backup.NameOf(ctx, dir)
			}
			if err == nil {
				all = append(all, b)
				continue
			}
		}
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		invalid, ok := errors.AsType[*backup.InvalidError](err)
		if nothing := ok && (invalid.Reason == backup.Missing || invalid.Reason == backup.Incomplete); !nothing {
			m.Host.Log.Debug("a backup cannot be read", "backup", dir, "error", err)
			unread = append(unread, dir)
		}
	}
	slices.SortStableFunc(all, func(a, b aBackup) int { return b.meta.Created.Compare(a.meta.Created) })
	return all, unread, nil
}

// keepBackups moves the newest backup of each agent and of each schema that today's database does not have
// to a place that outlives the updater: no version could be run on it without one.
func (m *Machine) keepBackups(ctx context.Context) error {
	stays, err := m.BackupsToKeep(ctx)
	for _, dir := range stays {
		to, err := m.moveBackup(dir)
		if err != nil {
			return fmt.Errorf("keep the backup in %s: %w; run the command again", dir, err)
		}
		m.Host.Log.Info("kept a backup whose tables differ from those of today's database: "+
			"it is all that an agent of its version could start with", "backup", to)
	}
	return err
}

// BackupsToKeep returns the folders of the backups that an uninstall must not delete.
func (m *Machine) BackupsToKeep(ctx context.Context) (dirs []string, err error) {
	all, unread, err := m.completeBackups(ctx)
	if err != nil {
		return nil, err
	}
	there, err := m.liveSchema(ctx)
	if err != nil {
		return nil, err
	}
	names, err := filepath.Glob(filepath.Join(m.Host.Paths.KeptBackups(), "*"))
	if err != nil {
		return nil, err
	}
	kept, _, err := m.completeOf(ctx, names)
	if err != nil {
		return nil, err
	}
	for n, b := range all {
		if slices.Contains(there, b.schema) || slices.ContainsFunc(all[:n], b.sameAgents) {
			continue
		}
		if !slices.ContainsFunc(kept, b.keptAs) {
			dirs = append(dirs, b.dir)
		}
	}
	return append(dirs, unread...), nil
}

// liveSchema returns the schema of the agent's database; none if there is no database, or none that
// any agent could read.
func (m *Machine) liveSchema(ctx context.Context) ([]backup.Schema, error) {
	path, err := m.Host.Database()
	if err != nil {
		m.Host.Log.Warn("it is not known where the agent's database is; the newest backup of each schema stays", "error", err)
		return nil, nil
	}
	db, err := backup.Open(path)
	if errors.Is(err, backup.ErrNoDatabase) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer db.Close()
	now, err := db.Schema(ctx)
	unread := errors.Is(err, backup.ErrUnsettled) || failure.Is[*backup.CorruptError](err)
	if errors.Is(err, backup.ErrNoDatabase) || unread {
		return nil, nil
	}
	return []backup.Schema{now}, err
}

// keptDir returns a free name for a backup that outlives the updater. An earlier uninstall may have
// left others there.
func (m *Machine) keptDir(name string) string {
	dir := filepath.Join(m.Host.Paths.KeptBackups(), name)
	if !host.Exists(dir) {
		return dir
	}
	return dir + "-" + m.Now().UTC().Format("20060102T150405Z")
}

// moveBackup moves a backup there; it can be repeated.
func (m *Machine) moveBackup(dir string) (to string, err error) {
	name := filepath.Base(filepath.Dir(dir))
	if name == filepath.Base(m.Host.Paths.Original()) {
		name = "before-enable"
	}
	if err := durable.MkdirAll(m.Host.Paths.KeptBackups(), 0o700); err != nil {
		return "", err
	}
	to = m.keptDir(name)
	err = durable.Rename(dir, to)
	if !errors.Is(err, syscall.EXDEV) {
		return to, err
	}
	// Somebody put the store elsewhere and left a link to it.
	meta, err := backup.MetaOf(dir)
	if err == nil {
		err = backup.CopyAs(dir, to, version.Release{Version: meta.Version, Edition: meta.Edition})
	}
	if err != nil {
		return "", errors.Join(err, durable.RemoveAll(to))
	}
	return to, durable.RemoveAll(dir)
}
