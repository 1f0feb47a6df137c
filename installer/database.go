package installer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"teleport-update/backup"
	"teleport-update/internal/space"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// planDatabase decides what a switch does with the agent's database, and
// refuses what would lose it. Nothing is changed. It is asked before a version
// is fetched, so that nothing is fetched in vain, and again, with the last word,
// by the transaction.
func (i *Installer) planDatabase(ctx context.Context, c Config, req SwitchRequest) (databaseRecord, error) {
	from, to := req.From.Version, target{Version: req.To.Version, Edition: req.To.Edition}
	back := isDowngrade(from, to.Version)
	d := databaseRecord{Plan: keepDatabase, Stop: back || from == "" && req.Force}
	var err error
	if d.Path, err = i.database(); err != nil {
		return d, fmt.Errorf("find the agent's database: %w; nothing was changed: repair the file", err)
	}
	if d.Dir, err = i.backupDir(c); err != nil {
		return d, err
	}
	switch err := backup.Probe(ctx, d.Path); {
	case errors.Is(err, backup.ErrNoDatabase):
		return d, nil // nothing to protect
	case err == nil && (back || !req.SkipBackup):
		d.Plan = backupDatabase
	case isCorrupt(err) && req.mayLoseBackup():
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
	if from == "" || version.Compare(to.Version, from) == 0 {
		return d, nil // a first enable, or another edition of the same version
	}
	switch err := i.checkBackup(ctx, i.specOf(c, req), req); {
	case err == nil:
		// Backward, the database that the version had; and forward again onto a
		// version that was left, if it is that exact version's and still valid
		// (RFD 0169 §Downgrades).
		d.Plan, d.Stop = restoreDatabase, true
	case !back:
		i.Log.Debug("the live database goes forward", "reason", err)
	case !req.Force:
		return d, err
	}
	return d, nil
}

// inspect looks for damage inside a database that is to be backed up.
func inspect(ctx context.Context, d *databaseRecord, req SwitchRequest) error {
	if d.Plan == keepDatabase {
		return nil
	}
	err := backup.Inspect(ctx, d.Path)
	if isCorrupt(err) && req.mayLoseBackup() {
		d.Plan, d.Damaged = keepDatabase, true
		return nil
	}
	if err != nil {
		return cannotBackUp(err, d.Path, req)
	}
	return nil
}

func isCorrupt(err error) bool {
	_, ok := errors.AsType[*backup.CorruptError](err)
	return ok
}

// cannotBackUp says which file is in the way of a switch, and what to do.
func cannotBackUp(err error, path string, req SwitchRequest) error {
	if corrupt, ok := errors.AsType[*backup.CorruptError](err); ok {
		return refuse("the agent's database %s is damaged or not a database (%s), so it cannot be backed up; nothing was changed: %s",
			path, corrupt.Detail, req.wayOut())
	}
	return fmt.Errorf("look at the agent's database: %w; nothing was changed: %s", err, req.wayOut())
}

// mayLoseBackup reports whether a person insisted on a switch although the
// database of today cannot be backed up.
func (r SwitchRequest) mayLoseBackup() bool {
	return r.SkipBackup || r.Kind == switchRollback && r.Force
}

// wayOut is what to do about a database that cannot be backed up.
func (r SwitchRequest) wayOut() string {
	const mend = "repair it or move it away"
	switch {
	case r.Kind.automatic():
		return mend + ", or switch without a backup by `teleport-update update --now --skip-backup`"
	case r.Kind == switchRollback:
		return mend + ", or go back without a backup of it by `teleport-update rollback " + r.To.Version + " --force`"
	}
	return mend
}

// specOf is the configuration that the switch leaves, as far as proxy and backup
// go.
func (i *Installer) specOf(c Config, req SwitchRequest) Spec {
	spec := c.Spec
	if req.Spec != nil {
		spec = *req.Spec
	}
	spec.Proxy = i.proxyOf(spec)
	return spec
}

// proxyOf names the cluster of a database: the configured one, or the agent's
// own.
func (i *Installer) proxyOf(spec Spec) string {
	// Without any proxy, databases have none either.
	_ = i.resolveProxy(&spec)
	return spec.Proxy
}

// backupDir is where the database of the version that is being left goes: into
// its folder, even if that is not whole any more. A backup of an earlier time
// would else stay there, and be taken for the one that the version was left with.
func (i *Installer) backupDir(c Config) (string, error) {
	if active := c.activeTarget(); active.Version != "" {
		tree, ok, err := i.store().Folder(active)
		if ok || err != nil {
			return tree.BackupDir(), err
		}
	}
	return filepath.Join(i.Paths.Original(), "backup"), nil
}

// databaseMargin is what stays free beside copies of the database, in bytes: the
// agent goes on writing. It is as much as each copy asks for.
const databaseMargin = 8 << 20

// roomFor is how many bytes a switch takes: for the backup, and for putting one
// back, the target's in dir or, should the switch fail, the one just taken. A
// switch that there is no room to undo must not begin.
func roomFor(d databaseRecord, dir string) (take, restore int64, err error) {
	take, err = backup.Size(d.Path)
	if errors.Is(err, backup.ErrNoDatabase) || d.Plan == keepDatabase && err == nil {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("size the agent's database: %w; nothing was changed", err)
	}
	restore = take
	if d.Plan == restoreDatabase {
		size, err := backup.Size(filepath.Join(dir, backup.FileName))
		if err != nil {
			return 0, 0, fmt.Errorf("size the backup: %w; nothing was changed", err)
		}
		restore = max(restore, size)
	}
	return take, restore, nil
}

// checkRoom refuses to begin what there is no room for.
func (i *Installer) checkRoom(d databaseRecord, dir string) error {
	take, restore, err := roomFor(d, dir)
	if err != nil || take == 0 {
		return err
	}
	ours, theirs := i.Paths.Versions(), filepath.Dir(d.Path)
	if sameFileSystem(ours, theirs) {
		return checkFree(ours, take+restore+databaseMargin)
	}
	return errors.Join(checkFree(ours, take+databaseMargin), checkFree(theirs, restore+databaseMargin))
}

func checkFree(dir string, need int64) error {
	if free := freeBytes(dir); free < need {
		return fmt.Errorf("make room for the agent's database: %w; nothing was changed: free some space", &space.Error{Path: dir, Need: need, Free: free})
	}
	return nil
}

func sameFileSystem(a, b string) bool {
	var x, y unix.Stat_t
	return unix.Stat(a, &x) == nil && unix.Stat(b, &y) == nil && x.Dev == y.Dev
}

// whyNotKept says why a version cannot be gone back to from disk.
func (i *Installer) whyNotKept(t target) string {
	entries, err := i.store().List()
	if err != nil {
		return err.Error()
	}
	for _, e := range entries {
		if e.Kind == versions.Incomplete && e.Release.Version == t.Version {
			return fmt.Sprintf("its folder %s is incomplete (%s)", e.Name, e.Why)
		}
	}
	return "it is not on this host any more, and neither is the database it had"
}

// checkBackup tells whether a version's own database can be restored; the error
// says why not.
func (i *Installer) checkBackup(ctx context.Context, spec Spec, req SwitchRequest) error {
	to, otherwise := req.To.target(), "have the cluster want another version, or "
	if req.Kind == switchRollback {
		otherwise = ""
	}
	tree, ok, err := i.store().Lookup(to)
	if err != nil {
		return err
	}
	if !ok {
		return refuse("going back to version %s is refused: %s; nothing was changed: %sinsist with `teleport-update enable --allow-downgrade`, "+
			"which keeps the database of today", describe(to.Version, to.Edition), i.whyNotKept(to), otherwise)
	}
	maxAge := spec.Backup.MaxAge.Std()
	if maxAge == 0 {
		maxAge = defaultMaxAge
	}
	err = backup.Check(ctx, tree.BackupDir(), backup.Want{
		Proxy: spec.Proxy, Version: to.Version, Edition: to.Edition, MaxAge: maxAge, Now: i.Now(),
	})
	var invalid *backup.InvalidError
	if errors.As(err, &invalid) {
		return refuse("going back to version %s is refused: %s; nothing was changed: %sinsist with `teleport-update rollback %s --force`, "+
			"which keeps the database of today", describe(to.Version, to.Edition), invalid, otherwise, to.Version)
	}
	return err
}
