package installer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/space"
	"teleport-update/internal/version"
	"teleport-update/versions"
	"teleport-update/versions/fetch"
)

// SmokeError is a release that was unpacked but does not run here. It counts
// against the version.
type SmokeError struct {
	Release state.Tree
	Err     error
}

func (e *SmokeError) Error() string {
	return fmt.Sprintf("version %s cannot be used on this host: %v", e.Release, e.Err)
}
func (e *SmokeError) Unwrap() error { return e.Err }

// obtain puts a version on disk, whole and able to run; nothing live is
// touched. A version that is there already is checked against its manifest and
// fetched again only when it is damaged, or known to be published again, so a
// return to it needs no network. Until it is unclaimed, no other command removes it.
func (i *Installer) obtain(ctx context.Context, w wanted) (_ versions.Tree, unclaim func(), err error) {
	unlock, err := i.Machine.WaitLock(ctx, i.Machine.Host.Paths.FetchLock())
	if err != nil {
		return versions.Tree{}, nil, err
	}
	defer unlock()
	var claim versions.Claim
	tree, err := i.obtainLocked(ctx, w, &claim)
	if err != nil {
		claim.End()
	}
	return tree, claim.End, err
}

func (i *Installer) obtainLocked(ctx context.Context, w wanted, claim *versions.Claim) (versions.Tree, error) {
	store, t := i.Machine.Host.Store, w.Release
	guard, err := i.guardOf(w)
	if err != nil {
		return versions.Tree{}, err
	}
	tree, ok, err := store.Lookup(t)
	if err == nil && ok {
		if err = claim.Take(tree.Dir); errors.Is(err, fs.ErrNotExist) {
			ok, err = false, nil // another run has just removed it
		}
	}
	if err != nil {
		return versions.Tree{}, err
	}
	if f := w.Config.Status.FailureOf(t); ok && w.SHA256 == "" && f != nil && f.SHA256 == tree.SHA256 {
		// It stayed because it failed: another release may have its name now.
		if w.SHA256, err = i.announced(ctx, w.Config, t, w.Spec); err != nil {
			i.Machine.Host.Log.Debug("it cannot be found out whether the version that failed was published again", "version", t.Version, "error", err)
		}
	}
	replace := ok && !w.accepts(tree)
	if ok && !replace {
		if refusal := guard.kept(tree); refusal != nil {
			i.Machine.Host.Log.Info("the version on disk is fetched again, for the policy of this host does not allow it as it is", "version", t.Version, "error", refusal)
			replace = true
		}
	}
	if ok && !replace {
		err := tree.Verify(ctx)
		switch _, damaged := errors.AsType[*versions.DamagedError](err); {
		case damaged:
			i.Machine.Host.Log.Warn("the version on disk is damaged and is fetched again", "version", t.Version, "error", err)
			replace = true
		case err != nil:
			return versions.Tree{}, err
		}
	}
	if !ok || replace {
		i.makeRoom(ctx, i.Machine.Retain)
		began := i.Machine.Now()
		tree, err = i.fetch(ctx, w, replace, claim, guard)
		if failure.Is[*space.Error](err) {
			claim.End()
			dropped := false
			i.makeRoom(ctx, func(c state.Config) { dropped = i.Machine.DropFailed(c) })
			if dropped {
				tree, err = i.fetch(ctx, w, replace, claim, guard)
			}
		}
		i.downloadTook += i.Machine.Now().Sub(began)
		if err != nil {
			return versions.Tree{}, err
		}
	}
	// Also what was there: the run that fetched it may have been cut off.
	i.Machine.Host.Label(ctx, tree.ProgramsDir())
	err = tree.Smoke(ctx)
	if err == nil {
		err = checkEdition(ctx, tree, t == w.Config.Active() || t == w.Config.Previous())
	}
	if err != nil {
		if ctx.Err() != nil {
			return versions.Tree{}, ctx.Err()
		}
		if _, there, lookErr := store.Lookup(t); lookErr == nil && !there {
			return versions.Tree{}, fmt.Errorf("version %s was removed while it was tried, as by another run that makes room: %w", t.Version, err)
		}
		if !ok {
			// Else a release that is published again under this version would
			// not even be looked at, where no active version makes retention
			// remove it.
			if err := store.Discard(tree, i.Machine.Host.Paths.LinkDirs()); err != nil {
				i.Machine.Host.Log.Warn("a version that does not run on this host could not be removed", "version", t.Version, "error", err)
			}
		}
		return versions.Tree{}, &SmokeError{Release: transaction.TreeOf(tree), Err: err}
	}
	return tree, nil
}

// refetch is obtain for the very release that was on disk. The journal keeps it there.
func (i *Installer) refetch(ctx context.Context, c state.Config, t state.Tree) error {
	_, unclaim, err := i.obtain(ctx, wanted{Release: t.Release, Config: c, Spec: c.Spec, SHA256: t.SHA256, Unasked: t.SHA256 != ""})
	if err == nil {
		unclaim()
	}
	return err
}

func (i *Installer) fetch(ctx context.Context, w wanted, replace bool, claim *versions.Claim, g guard) (versions.Tree, error) {
	f, req, err := i.fetcher(w.Config, w.Release, w.Spec)
	if err != nil {
		return versions.Tree{}, err
	}
	// Where a release was published again, a mirror may still have the one that
	// failed: that one would fail at every tick.
	req.Replace, req.ExpectSHA256, req.Claim = replace, w.SHA256, claim
	if g.verifier != nil { // else an interface that holds nothing would be asked
		f.Verifier = g.verifier
	}
	return f.Fetch(ctx, req)
}

// fetcher says how and what to fetch.
func (i *Installer) fetcher(c state.Config, t version.Release, spec state.Spec) (*fetch.Fetcher, fetch.Request, error) {
	req := fetch.Request{Release: t, Beside: c.Active()}
	httpClient, err := i.httpClient(spec.CAFile)
	if err != nil {
		return nil, req, err
	}
	if req.Sources, err = templates(spec.URLTemplates); err != nil {
		return nil, req, err
	}
	path, err := i.Machine.Host.Database()
	if err != nil {
		return nil, req, failure.Unchanged("find the agent's database: %w", err)
	}
	take, restore, err := transaction.RoomFor(state.Database{Path: path, Plan: state.BackupDatabase}, "")
	if err != nil {
		return nil, req, err
	}
	req.Extra = take + restore
	f := fetch.New(i.Machine.Host.Store, httpClient, i.Machine.Host.Log)
	if i.Terminal != nil {
		f.Progress = fetch.NewBar(i.Terminal)
	}
	if tree, ok, err := i.Machine.Active(c); err == nil && ok {
		req.Active = &tree
	}
	return f, req, nil
}

// makeRoom removes what nothing needs before something new comes. While another
// process switches it does nothing: what that one is about to link is not linked
// yet.
func (i *Installer) makeRoom(ctx context.Context, remove func(state.Config)) {
	unlock, err := state.Lock(ctx, i.Machine.Host.Paths.UpdateLock(), 0)
	if err != nil {
		return
	}
	defer unlock()
	// Another run may have switched since the caller looked.
	if c, err := i.Machine.Host.Paths.LoadConfig(); err == nil {
		remove(c)
	}
}

// tidy removes old versions that a run was kept from removing, by a kill or an
// error of the disk: each is as large as a release, and it may be long until
// something new comes and makes room.
func (i *Installer) tidy(ctx context.Context) {
	c, err := i.Machine.Host.Paths.LoadConfig()
	if err != nil || c.Spec.ActiveVersion == "" || !i.hasOldVersions(i.Machine.Needed(c)) {
		return
	}
	unlock, err := state.Lock(ctx, i.Machine.Host.Paths.FetchLock(), 0)
	if err != nil {
		return // something new comes
	}
	defer unlock()
	i.makeRoom(ctx, i.Machine.Retain)
}

// hasOldVersions reports whether there are folders of versions that may not be needed.
func (i *Installer) hasOldVersions(needed versions.Needed) bool {
	names := []string{needed.Failed.Version}
	for _, r := range needed.Releases {
		names = append(names, r.Version)
	}
	return i.Machine.Host.Store.HasBesides(names...)
}

// oldVersionsLeft says which versions stay on disk although nothing needs them, and why;
// empty where there are none. The next run removes a whole one without being asked: that
// is not worth a word.
func (i *Installer) oldVersionsLeft(c state.Config) string {
	needed := i.Machine.Needed(c)
	if c.Spec.ActiveVersion == "" || !i.hasOldVersions(needed) && !i.Machine.Host.Store.HasLeftovers() {
		return ""
	}
	verdicts, err := i.Machine.Host.Store.Judge(needed)
	if err != nil {
		return fmt.Sprintf("old versions stay on disk: %v", err)
	}
	var left []string
	for _, v := range verdicts {
		if !v.Keep && v.Entry.Kind != versions.Complete {
			left = append(left, v.Entry.Name)
		}
	}
	if left == nil {
		return ""
	}
	return fmt.Sprintf("the removal of %s from %s did not end; the next run tries again, and `journalctl -t teleport-update _UID=0` says what is in the way", strings.Join(left, ", "), i.Machine.Host.Store.Dir)
}

// templates parses what was configured; nothing configured means the vendor's
// own place.
func templates(configured []string) ([]*fetch.Template, error) {
	if len(configured) == 0 {
		configured = []string{fetch.DefaultTemplate}
	}
	var sources []*fetch.Template
	for _, text := range configured {
		t, err := fetch.ParseTemplate(text)
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
func (i *Installer) recordEarlyFailure(ctx context.Context, w wanted, cause error) error {
	if failure.Is[*state.BusyError](cause) {
		return cause
	}
	stays := transaction.StaysAsItIs(w.Config)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted (%w); %s", context.Cause(ctx), stays)
	}
	t, again := w.Release, "remove the cause, then run the command again"
	if w.Retried {
		again = "the next run tries again"
	}
	err := i.record(ctx, func(c *state.Config) {
		c.Status.LastUpdate = &state.LastUpdate{
			Time: i.Machine.Timestamp(), Target: t.Version, TargetEdition: t.Edition,
			Result: state.FailedEarly, Error: cause.Error(), ErrorCode: transaction.ErrorCode(cause),
		}
		if smoke, ok := errors.AsType[*SmokeError](cause); ok && !ofHost(smoke.Err) {
			c.Status.RecordFailure(smoke.Release, i.Machine.Now(), cause.Error())
			if w.Retried {
				again = "it is tried again at " + c.Status.Failed.NextAttempt.Format(time.RFC3339)
			}
			i.Machine.Retain(*c)
		}
	})
	if err != nil {
		again += fmt.Sprintf(" (this could not be recorded for status: %v)", err)
	}
	return fmt.Errorf("%w; %s: %s", cause, stays, again)
}

// ofHost reports whether a program could not be run for a cause of the host's, which speaks
// against no version: a file system that is mounted noexec or is full, or too little memory.
func ofHost(err error) bool {
	for _, cause := range []error{unix.EACCES, unix.EPERM, unix.ENOSPC, unix.EROFS, unix.EIO, unix.ENOMEM, unix.EAGAIN} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// checkLocal is what obtain does for a version that is there, without a network
// to fetch it again.
func checkLocal(ctx context.Context, tree versions.Tree) error {
	if err := tree.Verify(ctx); err != nil {
		return failure.Unchanged("%w", err).To("`teleport-update pin %s` fetches it again", tree.Release.Version)
	}
	if err := tree.Smoke(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &SmokeError{Release: transaction.TreeOf(tree), Err: err}
	}
	return nil
}
