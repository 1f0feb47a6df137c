package installer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"teleport-update/backup"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// planDatabase decides what happens to the agent's database, and refuses what
// would lose it. Nothing is changed.
func (t *transaction) planDatabase(ctx context.Context) (databaseRecord, error) {
	return t.Installer.planDatabase(ctx, t.config, t.request)
}

func (i *Installer) planDatabase(ctx context.Context, c Config, req SwitchRequest) (databaseRecord, error) {
	to := target{Version: req.To.Version, Edition: req.To.Edition}
	d := databaseRecord{Plan: keepDatabase, Path: i.database()}
	err := backup.Probe(ctx, d.Path)
	if errors.Is(err, backup.ErrNoDatabase) {
		return d, nil // nothing to protect
	}
	if req.SkipBackup && (err != nil || !isDowngrade(req.From.Version, to.Version)) {
		i.Log.Warn("the agent's database is not backed up, as asked: a rollback cannot bring it back", "database", d.Path, "probe", err)
		return d, nil
	}
	var corrupt *backup.CorruptError
	if errors.As(err, &corrupt) {
		return d, refuse("the agent's database %s is damaged or not a database (%v), so it cannot be backed up; nothing was changed: "+
			"repair or remove it, or switch without a backup by `teleport-update update --now --skip-backup`", d.Path, corrupt.Detail)
	}
	if err != nil {
		return d, fmt.Errorf("look at the agent's database: %w; nothing was changed", err)
	}
	d.Plan = backupDatabase
	if d.Dir, err = i.backupDir(c); err != nil {
		return d, err
	}
	switch order := version.Compare(to.Version, req.From.Version); {
	case req.From.Version == "", order == 0:
		// A first enable, or another edition of the same version.
	case order < 0:
		err := i.checkBackup(ctx, c.Spec, to)
		if err == nil {
			d.Plan = restoreDatabase
		} else if !req.Force {
			return d, err
		} else {
			i.Log.Warn("the database stays as it is although the version goes back, as asked", "reason", err)
		}
	default:
		// Forward again onto a version that was left: its own database is
		// restored only if it is that exact version's and still valid; the
		// live one goes forward otherwise (RFD 0169 §Downgrades).
		if err := i.checkBackup(ctx, c.Spec, to); err == nil {
			d.Plan = restoreDatabase
		} else {
			i.Log.Debug("the live database goes forward", "reason", err)
		}
	}
	return d, nil
}

// backupDir is where the database of the version that is being left goes.
func (i *Installer) backupDir(c Config) (string, error) {
	tree, ok, err := i.active(c)
	if err != nil {
		return "", err
	}
	if ok {
		return tree.BackupDir(), nil
	}
	return filepath.Join(i.Paths.Original(), "backup"), nil
}

// allowDowngrade refuses a downgrade that would start an older version on a
// database it may not be able to read.
func (i *Installer) allowDowngrade(ctx context.Context, c Config, spec Spec, to target) error {
	if err := backup.Probe(ctx, i.database()); errors.Is(err, backup.ErrNoDatabase) {
		return nil
	}
	return i.checkBackup(ctx, spec, to)
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
func (i *Installer) checkBackup(ctx context.Context, spec Spec, to target) error {
	tree, ok, err := i.store().Lookup(to)
	if err != nil {
		return err
	}
	if !ok {
		return refuse("going back to version %s is refused: %s; nothing was changed: have the cluster want another version, "+
			"or insist with `teleport-update enable --allow-downgrade`, which keeps the database of today", describe(to.Version, to.Edition), i.whyNotKept(to))
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
		return refuse("going to version %s with the database it had is refused: %s; nothing was changed: "+
			"have the cluster want another version, or insist with `teleport-update rollback %s --force`", describe(to.Version, to.Edition), invalid, to.Version)
	}
	return err
}
