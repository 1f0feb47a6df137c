package installer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"teleport-update/versions"
)

// SmokeError is a release that was unpacked but does not run here. It counts
// against the version.
type SmokeError struct {
	Release release
	Err     error
}

func (e *SmokeError) Error() string {
	return fmt.Sprintf("version %s cannot be used on this host: %v", e.Release, e.Err)
}
func (e *SmokeError) Unwrap() error { return e.Err }

// obtain puts a version on disk, whole and able to run; nothing live is
// touched. A version that is there already is checked against its manifest and
// fetched again only when it is damaged, or known to be published anew, so a
// return to it needs no network.
func (i *Installer) obtain(ctx context.Context, in *intent) (versions.Tree, error) {
	unlock, err := lock(ctx, i.Paths.fetchLock(), i.patience())
	if err != nil {
		return versions.Tree{}, err
	}
	defer unlock()

	store, t := i.store(), in.Target
	tree, ok, err := store.Lookup(t)
	if err != nil {
		return versions.Tree{}, err
	}
	replace := ok && !in.accepts(tree)
	if ok && !replace {
		err := tree.Verify(ctx)
		var d *versions.DamagedError
		switch {
		case errors.As(err, &d):
			i.Log.Warn("the version on disk is damaged and is fetched again", "version", t.Version, "error", err)
			replace = true
		case err != nil:
			return versions.Tree{}, err
		}
	}
	if !ok || replace {
		i.makeRoom(ctx)
		if tree, err = i.fetch(ctx, in, replace); err != nil {
			return versions.Tree{}, err
		}
	}
	// Also what was there: the run that fetched it may have been cut off.
	i.label(ctx, tree.Dir)
	if err := tree.Smoke(ctx); err != nil {
		if ctx.Err() != nil {
			return versions.Tree{}, ctx.Err()
		}
		if !ok {
			// Else a release that is published anew under this version would
			// not even be looked at, where no active version makes retention
			// remove it.
			if err := store.Discard(tree, i.linkDirs()); err != nil {
				i.Log.Warn("a version that is of no use could not be removed", "version", t.Version, "error", err)
			}
		}
		return versions.Tree{}, &SmokeError{Release: releaseOf(tree), Err: err}
	}
	return tree, nil
}

// label makes programs executable for systemd where SELinux decides on that. If it
// fails, whether the agent runs is for the health watch to say.
func (i *Installer) label(ctx context.Context, dir string) {
	if err := i.Labels.Restore(ctx, dir); err != nil {
		i.Log.Warn("systemd may not be allowed to run what is there", "folder", dir, "error", err)
	}
}

func (i *Installer) fetch(ctx context.Context, in *intent, replace bool) (versions.Tree, error) {
	f, req, err := i.fetcher(in.Config, in.Target, in.Spec)
	if err != nil {
		return versions.Tree{}, err
	}
	// Where a release was published anew, a mirror may still have the one that
	// failed: that one would fail at every tick.
	req.Replace, req.ExpectSHA256 = replace, in.SHA256
	return f.Fetch(ctx, req)
}

// fetcher says how and what to fetch.
func (i *Installer) fetcher(c Config, t target, spec Spec) (*versions.Fetcher, versions.FetchRequest, error) {
	req := versions.FetchRequest{Release: t}
	httpClient, err := i.httpClient(spec.CAFile)
	if err != nil {
		return nil, req, err
	}
	if req.Sources, err = templates(spec.URLTemplates); err != nil {
		return nil, req, err
	}
	path, err := i.database()
	if err != nil {
		return nil, req, fmt.Errorf("find the agent's database: %w; nothing was changed", err)
	}
	take, restore, err := roomFor(databaseRecord{Path: path, Plan: backupDatabase}, "")
	if err != nil {
		return nil, req, err
	}
	req.Extra = take + restore
	f := versions.NewFetcher(i.store(), httpClient, i.Log)
	if i.Terminal != nil {
		f.Progress = versions.NewBar(i.Terminal)
	}
	if tree, ok, err := i.active(c); err == nil && ok {
		req.Active = &tree
	}
	return f, req, nil
}

// makeRoom removes what nothing needs before something new comes. While another
// process switches it does nothing: what that one is about to link is not linked
// yet.
func (i *Installer) makeRoom(ctx context.Context) {
	unlock, err := lock(ctx, i.Paths.updateLock(), 0)
	if err != nil {
		return
	}
	defer unlock()
	// Another run may have switched since the caller looked.
	if c, err := loadConfig(i.Paths.Config()); err == nil {
		i.retain(c)
	}
}

// tidy removes old versions that a run was kept from removing, by a kill or an
// error of the disk: each is as large as a release, and it may be long until
// something new comes and makes room.
func (i *Installer) tidy(ctx context.Context) {
	c, err := loadConfig(i.Paths.Config())
	if err != nil || c.Spec.ActiveVersion == "" ||
		!i.store().HasBesides(c.Spec.ActiveVersion, c.Status.PreviousVersion) {
		return
	}
	unlock, err := lock(ctx, i.Paths.fetchLock(), 0)
	if err != nil {
		return // something new comes
	}
	defer unlock()
	i.makeRoom(ctx)
}

// templates parses what was configured; nothing configured means the vendor's
// own place.
func templates(configured []string) ([]*versions.Template, error) {
	if len(configured) == 0 {
		configured = []string{versions.DefaultTemplate}
	}
	var sources []*versions.Template
	for _, text := range configured {
		t, err := versions.ParseTemplate(text)
		if err != nil {
			return nil, err
		}
		sources = append(sources, t)
	}
	return sources, nil
}

// recordEarlyFailure notes an attempt that ended before anything live was
// touched, and adds to the error what a person then wants to know. Only a
// release that does not run counts against its version; a failed download is
// tried again at the next tick.
func (i *Installer) recordEarlyFailure(ctx context.Context, in *intent, failure error) error {
	var busy *BusyError
	if errors.As(failure, &busy) {
		return failure
	}
	state := staysAsItIs(in.Config)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted (%w); %s", context.Cause(ctx), state)
	}
	t, again := in.Target, "run the command again once that is mended"
	if in.Kind.automatic() || in.Kind == switchRepair {
		again = "the next run tries again"
	}
	err := i.record(ctx, func(c *Config) {
		c.Status.LastUpdate = &LastUpdate{
			Time: i.timestamp(), Target: t.Version, TargetEdition: t.Edition,
			Result: FailedEarly, Error: failure.Error(),
		}
		var smoke *SmokeError
		if errors.As(failure, &smoke) {
			recordFailure(&c.Status, smoke.Release, i.Now(), failure.Error())
			if in.Kind.automatic() {
				again = "it is tried again at " + c.Status.Failed.NextAttempt.Format(time.RFC3339)
			}
			i.retain(*c)
		}
	})
	if err != nil {
		again += fmt.Sprintf(" (this could not be recorded for status: %v)", err)
	}
	return fmt.Errorf("%w; %s: %s", failure, state, again)
}

// staysAsItIs says what a host is on that was not changed.
func staysAsItIs(c Config) string {
	if c.Spec.ActiveVersion == "" {
		return "nothing was changed"
	}
	return "the agent stays on " + orNone(c.Spec.ActiveVersion)
}

// checkLocal is what obtain does for a version that is there, without a network
// to fetch it again.
func checkLocal(ctx context.Context, tree versions.Tree) error {
	if err := tree.Verify(ctx); err != nil {
		return fmt.Errorf("%w; nothing was changed: `teleport-update pin %s` fetches it again", err, tree.Release.Version)
	}
	if err := tree.Smoke(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &SmokeError{Release: releaseOf(tree), Err: err}
	}
	return nil
}
