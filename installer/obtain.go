package installer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"teleport-update/find"
	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/space"
	"teleport-update/internal/trust"
	"teleport-update/internal/version"
	"teleport-update/versions"
	"teleport-update/versions/fetch"
)

// obtain puts a version on disk, whole and able to run; nothing live is
// touched. A version that is there already is checked against its manifest and
// fetched again only when it is damaged, or known to be published again, so a
// return to it needs no network. Until it is unclaimed, no other command removes it.
func (o obtainer) obtain(ctx context.Context, w wanted) (_ versions.Tree, unclaim func(), err error) {
	unlock, err := o.m.WaitLock(ctx, o.m.Host.Paths.FetchLock())
	if err != nil {
		return versions.Tree{}, nil, err
	}
	defer unlock()
	var claim versions.Claim
	tree, err := o.obtainLocked(ctx, w, &claim)
	if err != nil {
		claim.End()
	}
	return tree, claim.End, err
}

func (o obtainer) obtainLocked(ctx context.Context, w wanted, claim *versions.Claim) (versions.Tree, error) {
	store, t := o.m.Host.Store, w.Release
	guard, err := o.rules.guardOf(w)
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
		w.SHA256 = o.announcedAgain(ctx, w)
	}
	replace := ok && !w.accepts(tree)
	if ok && !replace {
		if refusal := guard.kept(tree); refusal != nil {
			o.m.Host.Log.Info("the version on disk is fetched again, for the policy of this host does not allow it as it is", "version", t.Version,
				"error", refusal)
			replace = true
		}
	}
	if ok && !replace {
		if replace, err = o.damaged(ctx, tree, t); err != nil {
			return versions.Tree{}, err
		}
	}
	if !ok || replace {
		if tree, err = o.fetchWithRoom(ctx, w, replace, claim, guard); err != nil {
			return versions.Tree{}, err
		}
	}
	// Also a version that was there: the run that fetched it may have been cut off.
	o.m.Host.Label(ctx, tree.ProgramsDir())
	err = tree.Smoke(ctx)
	if err == nil {
		err = checkEdition(ctx, tree, t == w.Config.Active() || t == w.Config.Previous())
	}
	if err != nil {
		return versions.Tree{}, o.doesNotRun(ctx, tree, t, ok, err)
	}
	return tree, nil
}

// announcedAgain returns the digest that the mirror announces for a version that failed; empty if it cannot be had.
func (o obtainer) announcedAgain(ctx context.Context, w wanted) string {
	sum, err := o.announced(ctx, w.Config, w.Release, w.Spec)
	if err != nil {
		o.m.Host.Log.Debug("it cannot be found out whether the version that failed was published again", "version", w.Release.Version,
			"error", err)
	}
	return sum
}

// damaged reports whether a version on disk is not as its manifest says.
func (o obtainer) damaged(ctx context.Context, tree versions.Tree, t version.Release) (bool, error) {
	err := tree.Verify(ctx)
	if _, damaged := errors.AsType[*versions.DamagedError](err); damaged {
		o.m.Host.Log.Warn("the version on disk is damaged and is fetched again", "version", t.Version, "error", err)
		return true, nil
	}
	return false, err
}

// fetchWithRoom fetches a version after room was made for it, and once more if versions that failed
// had to go for it.
func (o obtainer) fetchWithRoom(ctx context.Context, w wanted, replace bool, claim *versions.Claim, g guard) (versions.Tree, error) {
	o.makeRoom(ctx, o.m.Retain)
	began := o.m.Now()
	tree, err := o.fetch(ctx, w, replace, claim, g)
	if failure.Is[*space.Error](err) {
		claim.End()
		dropped := false
		o.makeRoom(ctx, func(ctx context.Context, c state.Config) { dropped = o.m.DropFailed(ctx, c) })
		if dropped {
			tree, err = o.fetch(ctx, w, replace, claim, g)
		}
	}
	*o.took += o.m.Now().Sub(began)
	return tree, err
}

// doesNotRun returns the error of a version that does not run. It discards a version that was fetched for this attempt.
func (o obtainer) doesNotRun(ctx context.Context, tree versions.Tree, t version.Release, wasThere bool, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, there, lookErr := o.m.Host.Store.Lookup(t); lookErr == nil && !there {
		return fmt.Errorf("version %s was removed while it was tried, as by another run that makes room: %w", t.Version, err)
	}
	if !wasThere {
		// Else a release that is published again under this version would not even be looked at, if there is no active version and so no
		// retention.
		if err := o.m.Host.Store.Discard(tree, o.m.Host.Paths.LinkDirs()); err != nil {
			o.m.Host.Log.Warn("a version that does not run on this host could not be removed", "version", t.Version, "error", err)
		}
	}
	return &SmokeError{Release: transaction.TreeOf(tree), Err: err}
}

// refetch is obtain for the very release that was on disk. The journal keeps it there.
func (o obtainer) refetch(ctx context.Context, c state.Config, t state.Tree) error {
	_, unclaim, err := o.obtain(ctx, wanted{Release: t.Release, Config: c, Spec: c.Spec, SHA256: t.SHA256, Unasked: t.SHA256 != ""})
	if err == nil {
		unclaim()
	}
	return err
}

func (o obtainer) fetch(ctx context.Context, w wanted, replace bool, claim *versions.Claim, g guard) (versions.Tree, error) {
	f, req, err := o.fetcher(w.Config, w.Release, w.Spec)
	if err != nil {
		return versions.Tree{}, err
	}
	// If a release was published again, a mirror may still have the old one, which would fail at every tick.
	req.Replace, req.ExpectSHA256, req.Claim = replace, w.SHA256, claim
	if g.verifier != nil { // else an interface that holds nothing would be asked
		f.Verifier = g.verifier
	}
	return f.Fetch(ctx, req)
}

// recordEarlyFailure notes an attempt that ended before anything live was touched, and adds to the error the state of the host and what
// helps. Only a release that does not run counts against its version; a failed download is tried again at the next tick.
func (o obtainer) recordEarlyFailure(ctx context.Context, w wanted, cause error) error {
	if failure.Is[*state.BusyError](cause) {
		return cause
	}
	stays := transaction.StaysAsItIs(w.Config)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted (%w); %s", context.Cause(ctx), stays)
	}
	t, again := w.Release, runAgain
	if w.Retried {
		again = "the next run tries again"
	}
	err := changeStatus(ctx, o.m, func(c *state.Config) {
		c.Status.LastUpdate = &state.LastUpdate{
			Time: o.m.Timestamp(), Target: t.Version, TargetEdition: t.Edition,
			Result: state.FailedEarly, Error: cause.Error(), ErrorCode: transaction.ErrorCode(cause),
		}
		if smoke, ok := errors.AsType[*SmokeError](cause); ok && !ofHost(smoke.Err) {
			c.Status.RecordFailure(smoke.Release, o.m.Now(), cause.Error())
			if w.Retried {
				again = "it is tried again at " + c.Status.Failed.NextAttempt.Format(time.RFC3339)
			}
			o.m.Retain(ctx, *c)
		}
	})
	if err != nil {
		again += fmt.Sprintf(" (this could not be recorded for status: %v)", err)
	}
	return fmt.Errorf("%w; %s: %s", cause, stays, again)
}

// fetcher returns a fetcher and the request for it.
func (o obtainer) fetcher(c state.Config, t version.Release, spec state.Spec) (*fetch.Fetcher, fetch.Request, error) {
	req := fetch.Request{Release: t, Linked: c.Active()}
	httpClient, err := o.http(spec.CAFile)
	if err != nil {
		return nil, req, err
	}
	if req.Sources, err = templates(spec.URLTemplates); err != nil {
		return nil, req, err
	}
	path, err := o.m.Host.Database()
	if err != nil {
		return nil, req, failure.Unchanged("find the agent's database: %w", err)
	}
	take, restore, err := transaction.RoomFor(state.Database{Path: path, Plan: state.BackupDatabase}, "")
	if err != nil {
		return nil, req, err
	}
	req.Extra = take + restore
	f := fetch.New(o.m.Host.Store, httpClient, o.m.Host.Log)
	if o.screen != nil {
		f.Progress = fetch.NewBar(o.screen)
	}
	if tree, ok, err := o.m.Active(c); err == nil && ok {
		req.Active = &tree
	}
	return f, req, nil
}

// templates parses the configured templates; the default is the vendor's own place.
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

// announcePatience bounds a look at checksums: others wait for the lock.
const announcePatience = 20 * time.Second

// announced returns the checksum that the mirrors announce for a version.
func (o obtainer) announced(ctx context.Context, c state.Config, t version.Release, spec state.Spec) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, announcePatience)
	defer cancel()
	f, req, err := o.fetcher(c, t, spec)
	if err != nil {
		return "", err
	}
	return f.Checksum(ctx, t, req.Sources)
}

// exposed reports the templates with a folder of this host in which users other than root may exchange a release. blind is why a folder
// could not be examined.
func exposed(spec state.Spec) (all []decision.Exposed, blind error) {
	for _, text := range spec.URLTemplates {
		t, err := fetch.ParseTemplate(text)
		if err != nil {
			continue // a run that uses it says so
		}
		switch err := t.Exposed(); {
		case err == nil:
		case trust.Blind(err):
			blind = fmt.Errorf("%s: %w", t, err)
		default:
			all = append(all, decision.Exposed{Template: t.String(), Why: err})
		}
	}
	return all, blind
}

// offer holds the URL template that find offered to an enable without templates; empty if it offered none. It is shown to a person and used
// by nothing: find is believed about version, edition and time.
type offer struct{ template string }

// hear notes what find offers, if the releases would come from the usual place.
func (o *offer) hear(answer find.Answer, spec state.Spec) {
	if len(spec.URLTemplates) == 0 {
		o.template = answer.ReleaseTemplate
	}
}

// say logs where the releases come from although find has some, too.
func (o *offer) say(log *slog.Logger) {
	if o.template == "" {
		return
	}
	if _, unfit := fetch.ParseOffered(o.template); unfit == nil {
		log.Info("the find server has releases, which are used only if --template names them", "used", fetch.DefaultTemplate,
			"offered", o.template)
	}
}

// withCommand adds to the error of an enable that was refused, or that could not fetch the release, the whole
// command with the template. The other result is why the template is not fit to be shown.
func (o *offer) withCommand(err error, opts EnableOptions, p state.Paths) (shown, unfit error) {
	if o.template == "" || !failure.Is[*failure.RefusedError](err) && !fetch.NoMirror(err) {
		return err, nil
	}
	if _, unfit := fetch.ParseOffered(o.template); unfit != nil {
		return err, unfit
	}
	opts.Templates = []string{o.template}
	return fmt.Errorf("%w; the find server offers a URL template, which is used only if you name it: %s", err,
		opts.command(p)), nil
}
