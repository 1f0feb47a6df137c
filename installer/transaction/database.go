package transaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"teleport-update/backup"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/space"
	"teleport-update/internal/trust"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// planDatabase decides what a transaction does with the agent's database, and refuses a transaction
// that would lose it. Nothing is changed. It is called before a version is fetched, so that nothing
// is fetched in vain, and again, with the last word, by the transaction: see Preflight.
func (m *Machine) planDatabase(ctx context.Context, sight Sight, c state.Config, req Request) (state.Database, error) {
	d := state.Database{Plan: state.KeepDatabase}
	var err error
	if d.Path, err = m.Host.Database(); err != nil {
		return d, failure.Unchanged("find the agent's database: %w", err).To("repair the file")
	}
	if d.Dir, err = m.backupDir(c); err != nil {
		return d, err
	}
	owner, err := m.databaseOwner(ctx, sight, c)
	if err != nil {
		return d, err
	}
	if owner.another {
		// The backup that the active version was left with stays.
		d.Dir, d.Foreign = m.keptDir("found"), true
	}
	from, to := cmp.Or(owner.version, req.From.Version), req.To.Release // the version that runs, whatever updates.yaml names
	back := from != "" && version.Compare(to.Version, from) < 0
	itsOwn := owner.has(ctx, m, to)
	if err := owner.checkBack(m, c, req, itsOwn); err != nil {
		return d, err
	}
	d.Stop = (back || from == "" && req.Force) && !itsOwn
	if d.Absent = losesData(sight, d.Path); d.Absent {
		return d, nil
	}
	switch err := m.probe(ctx, d.Path); {
	case failure.Is[*failure.RefusedError](err):
		return d, err
	case errors.Is(err, backup.ErrNoDatabase):
		d.Absent = true
		return d, nil // nothing to protect, see databaseThere
	case err == nil && (back || !req.SkipBackup):
		d.Plan = state.BackupDatabase
	case failure.Is[*backup.CorruptError](err) && req.mayLoseBackup():
		d.Damaged = true
	case req.SkipBackup && !back:
		d.Skipped = true
		return d, nil
	default:
		return d, cannotBackUp(err, d.Path, req)
	}
	if d.Stop {
		// Before the agent is stopped in vain. Going forward, the backup itself
		// is checked while the agent runs.
		if err := inspect(ctx, &d, req); err != nil {
			return d, err
		}
	}
	if itsOwn || from == "" || version.Compare(to.Version, from) == 0 {
		// The version has today's database already, this is a first enable, or another edition of the same version.
		return d, nil
	}
	// The configuration that the transaction leaves, as far as proxy and backup go.
	spec := *cmp.Or(req.Spec, &c.Spec)
	spec.Proxy = m.proxyOf(spec)
	maxAge := cmp.Or(spec.Backup.MaxAge.Std(), state.DefaultMaxAge)
	if c.Status.Unproven && to == c.Previous() && sight.notFor(windowOf(c, sight), m.Now()) {
		maxAge = 0 // nobody has written since the agent was stopped
	}
	switch err := m.checkBackup(ctx, spec, req, maxAge); {
	case err == nil:
		// Backward, the version gets the database that it had. Forward again onto a version that was
		// left, it gets its backup if that is this exact version's and still valid (RFD 0169
		// §Downgrades).
		d.Plan, d.Stop = state.RestoreDatabase, true
		return d, seeUsers(m, d.Path, "the change of version")
	case !back:
		m.Host.Log.Debug("the database of today is kept", "error", err)
	case !req.Force:
		return d, err
	}
	return d, nil
}

func (m *Machine) probe(ctx context.Context, path string) error {
	db, err := m.openChecked(path)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Probe(ctx)
}

// inspect looks for damage inside a database that is to be backed up.
func inspect(ctx context.Context, d *state.Database, req Request) error {
	if d.Plan == state.KeepDatabase {
		return nil
	}
	db, err := backup.Open(d.Path)
	if err == nil {
		err = db.Inspect(ctx)
		db.Close()
	}
	if failure.Is[*backup.CorruptError](err) && req.mayLoseBackup() {
		d.Plan, d.Damaged = state.KeepDatabase, true
		return nil
	}
	if err != nil {
		return cannotBackUp(err, d.Path, req)
	}
	return nil
}

// exchange is the advice for a file that is no database, or a damaged one.
const exchange = "repair it, or move it away and restart the agent"

// cannotBackUp says which file is in the way of a transaction, and what to do.
func cannotBackUp(err error, path string, req Request) error {
	if corrupt, ok := errors.AsType[*backup.CorruptError](err); ok {
		return failure.Unchanged("the agent's database %s is damaged or not a database (%s), so it cannot be backed up", path, corrupt.Detail).
			To("%s", req.wayOut(exchange)).Refused()
	}
	fix := req.wayOut(exchange)
	switch {
	case errors.Is(err, backup.ErrLocked):
		fix = req.wayOut(fmt.Sprintf("wait for the end of the process that holds the lock, or end it%s, then run the command again",
			openIn(path)))
	case backup.NotLooked(err):
		fix = req.wayOut("remove the cause, then run the command again")
	}
	for _, r := range remedies {
		if errors.Is(err, r.of) {
			fix = r.fix
		}
	}
	return failure.Unchanged("look at the agent's database: %w", err).To("%s", fix)
}

// openIn names the processes that have a database open, among them the agent's own; empty if none can be seen.
func openIn(path string) string {
	db, err := backup.Open(path)
	if err != nil {
		return ""
	}
	defer db.Close()
	used, ok := errors.AsType[*backup.InUseError](db.CheckUnused(nil))
	if !ok || len(used.PIDs) == 0 {
		return ""
	}
	return fmt.Sprintf(" (it is open in %s)", used.Who())
}

// remedies are for errors of the host, which say nothing about the database: nobody is to move it
// away.
var remedies = []struct {
	of  error
	fix string
}{
	{unix.EIO, "look at its disk (`journalctl -k` has what the kernel says of it), then run the command again"},
	{unix.EROFS, "mount its file system writable, then run the command again"},
	{unix.ENOSPC, "free some space, then run the command again"},
	{unix.EDQUOT, "free some space, then run the command again"},
	{unix.EACCES, "give this run the right to read it, then run the command again"},
	{unix.EPERM, "give this run the right to read it, then run the command again"},
}

// mayLoseBackup reports whether a person insisted on a transaction although the
// database of today cannot be backed up.
func (r Request) mayLoseBackup() bool {
	return r.SkipBackup || r.Kind == Rollback && r.Force
}

// wayOut returns what to do about a database that cannot be backed up; mend is the advice after which it can be.
func (r Request) wayOut(mend string) string {
	switch {
	case r.Kind.Automatic():
		return mend + ", or switch without a backup by `teleport-update " + r.insisting() + "`"
	case r.Kind == Rollback:
		return mend + ", or go back without a backup of it by `teleport-update " + r.insisting() + "`"
	}
	return mend
}

// proxyOf returns the cluster of a database: the configured one, or the agent's own.
func (m *Machine) proxyOf(spec state.Spec) string {
	// Without any proxy, databases have none either.
	_ = m.Host.ResolveProxy(&spec)
	return spec.Proxy
}

// backupDir returns where the database of the version that is being left goes: into its folder,
// even if the folder is not whole any more. Otherwise an earlier backup would stay there, and be
// taken for the one that the version was left with.
func (m *Machine) backupDir(c state.Config) (string, error) {
	if active := c.Active(); active.Version != "" {
		for _, find := range []func(versions.Release) (versions.Tree, bool, error){m.Host.Store.Folder, m.Host.Store.Unmarked} {
			if tree, ok, err := find(active); ok || err != nil {
				return tree.BackupDir(), err
			}
		}
	}
	return filepath.Join(m.Host.Paths.Original(), "backup"), nil
}

// DatabaseMargin is the number of bytes that stay free beside copies of the database, since the
// agent goes on writing. Each copy asks for as much.
const DatabaseMargin = 8 << 20

// RoomFor returns how many bytes a transaction takes: for the backup, and beside the database, for the
// reserve of its undoing, which restores the backup just taken, and for a restore of the target's backup in dir.
func RoomFor(d state.Database, dir string) (take, restore int64, err error) {
	take, err = sizeOf(d.Path)
	if errors.Is(err, backup.ErrNoDatabase) || d.Plan == state.KeepDatabase && err == nil {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, failure.Unchanged("size the agent's database: %w", err)
	}
	restore = take + DatabaseMargin
	if d.Plan == state.RestoreDatabase {
		size, err := sizeOf(filepath.Join(dir, backup.FileName))
		if err != nil {
			return 0, 0, failure.Unchanged("size the backup: %w", err)
		}
		restore += size + DatabaseMargin
	}
	return take, restore, nil
}

func sizeOf(path string) (int64, error) {
	db, err := backup.Open(path)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	return db.Size()
}

// checkRoom refuses to begin a transaction without room for it.
func (m *Machine) checkRoom(d state.Database, dir string) error {
	take, restore, err := RoomFor(d, dir)
	if err != nil || take == 0 {
		return err
	}
	ours, theirs := m.Host.Paths.Versions(), filepath.Dir(d.Path)
	if space.SameFileSystem(ours, theirs) {
		return checkFree(ours, take+restore+DatabaseMargin)
	}
	return errors.Join(checkFree(ours, take+DatabaseMargin), checkFree(theirs, restore+DatabaseMargin))
}

func checkFree(dir string, need int64) error {
	if err := space.Check(dir, need, 0); err != nil {
		return failure.Unchanged("make room for the agent's database: %w", err).To("free some space")
	}
	return nil
}

// openChecked opens the folder of a database that passes checkDataDir.
func (m *Machine) openChecked(path string) (*backup.Database, error) {
	db, err := backup.Open(path)
	if err != nil {
		return nil, err
	}
	if err := m.checkDataDir(db, path); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// checkDataDir refuses a database that a user other than root could have named in the agent's
// configuration, unless it is that user's own: no file of root's, or of anybody else's, is read or
// replaced by that user's word.
func (m *Machine) checkDataDir(db *backup.Database, path string) error {
	places, err := m.Host.AgentPlaces()
	if err != nil || places.DataDir != "" {
		return err // named by the unit, which is root's
	}
	config := places.Config
	named := trust.Path(config)
	if named == nil || filepath.Dir(filepath.Dir(path)) == m.Host.Paths.DataDir {
		return nil
	}
	uid, err := db.Owner()
	if err != nil {
		return err
	}
	info, err := os.Stat(config)
	if err != nil {
		return failure.Unchanged("look at the agent's configuration: %w", err)
	}
	if owner := int(info.Sys().(*syscall.Stat_t).Uid); uid == 0 || uid != owner {
		return failure.Unchanged("%s names the database %s, whose folder belongs to user %d, and is not believed: %w", config, db.Path(), uid,
			named).
			To("make the configuration writable by root only, or give the folder to the user who can write it").Refused()
	}
	return nil
}
