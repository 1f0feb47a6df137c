package installer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"teleport-update/internal/version"
	"teleport-update/versions"
)

// An answer of find older than this is asked for again before the switch: the
// cluster may have withdrawn the version meanwhile.
const answerHoldsFor = time.Minute

// A longer jitter than this is cut: the timer's unit is bounded in time, and a
// host that waits is a host that stays behind.
const longestJitter = time.Hour

// UpdateOptions are the flags of update.
type UpdateOptions struct {
	Now        bool // override jitter, window, back-off and hold
	SkipBackup bool // switch without a backup of the database
}

// intent is a change that was decided on, and what the decision was based on.
type intent struct {
	Config Config
	Spec   Spec // with proxy and group filled in
	Target target
	Jitter time.Duration
	Kind   switchKind
	SHA256 string // of a release that was published anew; what is on disk is not it
}

// accepts reports whether a tree is the release that is meant.
func (in *intent) accepts(tree versions.Tree) bool {
	return in.SHA256 == "" || tree.SHA256 == in.SHA256
}

// Update is one tick: it brings the host to the version that find wants, if
// updates are enabled, find wants it now, and the version is not held, pinned
// or backing off.
func (i *Installer) Update(ctx context.Context, opts UpdateOptions) error {
	// Most ticks of a disabled host end here: no lock, no TLS, no D-Bus.
	if c, err := loadConfig(i.Paths.Config()); err == nil && !c.Spec.Enabled && !exists(i.Paths.Journal()) {
		i.Log.Info("updates are disabled; nothing to do")
		return nil
	}
	in, err := i.consider(ctx, opts)
	if err != nil {
		return err
	}
	if in == nil {
		i.tidy(ctx)
		return nil
	}
	asked := i.Now()
	if err := i.waitJitter(ctx, in, opts); err != nil {
		return err
	}
	tree, err := i.obtain(ctx, in)
	if err != nil {
		return i.recordEarlyFailure(ctx, in, err)
	}
	if in.Kind == switchRepair {
		return i.relinkRepaired(ctx)
	}
	if i.Now().Sub(asked) > answerHoldsFor {
		again, err := i.consider(ctx, opts)
		if err != nil {
			return err
		}
		if again == nil || again.Target != in.Target {
			i.Log.Info("find changed its answer meanwhile; the next run looks again", "was", in.Target.Version)
			return nil
		}
	}
	return i.switchOver(ctx, SwitchRequest{
		Kind:       in.Kind,
		From:       in.Config.activeTarget(),
		To:         releaseOf(tree),
		Now:        opts.Now,
		SkipBackup: opts.SkipBackup,
	})
}

// consider is the part of a tick under the update lock: recover, repair, ask,
// decide, and refuse early what would be refused after the download anyway. A
// nil intent means that there is nothing to do; the log says why.
func (i *Installer) consider(ctx context.Context, opts UpdateOptions) (*intent, error) {
	c, unlock, err := i.open(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if !c.Spec.Enabled {
		i.Log.Info("updates are disabled; nothing to do")
		return nil, nil
	}
	spec := c.Spec
	if err := i.resolveProxy(&spec); err != nil {
		return nil, err
	}
	whole, err := i.repair(ctx, c, opts.Now)
	if _, refused := errors.AsType[*RefusedError](err); err != nil && !refused {
		return nil, fmt.Errorf("%w; %s", err, staysAsItIs(c))
	}
	if err != nil {
		return nil, err
	}
	if err := i.takeOverLeft(ctx, &c); err != nil {
		return nil, err
	}
	var refetch *intent
	if !whole {
		refetch = &intent{Config: c, Spec: spec, Target: c.activeTarget(), Kind: switchRepair}
	}
	if c.Spec.Pinned {
		i.Log.Info("the host is pinned", "version", c.Spec.ActiveVersion)
		return refetch, nil
	}
	if _, err := templates(spec.URLTemplates); err != nil {
		// Not only when there is something to fetch, at four in the morning.
		return nil, fmt.Errorf("%w; %s: name others with `teleport-update enable --template`", err, staysAsItIs(c))
	}
	answer, err := i.ask(ctx, spec)
	if err != nil {
		if refetch != nil {
			i.Log.Warn("find cannot be asked; the active version is fetched again all the same", "error", err)
			return refetch, nil
		}
		return nil, fmt.Errorf("%w; %s: the next run tries again", err, staysAsItIs(c))
	}
	d := i.decide(ctx, c, spec, answer, opts.Now)
	if d.Action == doNothing {
		i.Log.Info(d.Reason)
		return refetch, nil
	}
	in := &intent{Config: c, Spec: spec, Target: d.Target, Jitter: answer.Jitter, Kind: switchUpdate, SHA256: d.SHA256}
	if d.SHA256 != "" {
		i.Log.Info("the version that failed was published anew; it is tried again", "version", d.Target.Version, "sha256", d.SHA256)
	}
	if d.Downgrade {
		in.Kind = switchDowngrade
	}
	_, err = i.planDatabase(ctx, c, SwitchRequest{
		Kind: in.Kind, From: c.activeTarget(), To: releaseWanted(d.Target), Spec: &spec, SkipBackup: opts.SkipBackup,
	})
	if _, refused := errors.AsType[*RefusedError](err); refused {
		return nil, i.reportRefusal(&c, d.Target, err)
	}
	if err != nil {
		return nil, err
	}
	return in, nil
}

// releaseWanted is a release of which no more is known than what find says.
func releaseWanted(t target) release { return release{Version: t.Version, Edition: t.Edition} }

// reportRefusal makes a refused switch an error the first time and a log line
// from then on: the timer would otherwise fail every ten minutes for as long as
// the cluster wants it.
func (i *Installer) reportRefusal(c *Config, t target, refusal error) error {
	known := c.Status.Refused
	if known.is(t) && i.Scheduled {
		i.Log.Warn("the switch stays refused", "version", t.Version, "reason", refusal)
		if known.Reason == refusal.Error() {
			return nil
		}
		known.Reason = refusal.Error()
		return c.save(i.Paths.Config())
	}
	c.Status.Refused = &Refused{Version: t.Version, Edition: t.Edition, Reason: refusal.Error()}
	c.Status.LastUpdate = &LastUpdate{Time: i.timestamp(), Target: t.Version, TargetEdition: t.Edition, Result: FailedEarly, Error: refusal.Error()}
	if err := c.save(i.Paths.Config()); err != nil {
		return err
	}
	return refusal
}

// waitJitter spreads the load on the mirrors. It holds no lock, and a version
// that is already on disk is not waited for: there is nothing to spread.
func (i *Installer) waitJitter(ctx context.Context, in *intent, opts UpdateOptions) error {
	if opts.Now || in.Jitter == 0 {
		return nil
	}
	if tree, ok, err := i.store().Lookup(in.Target); ok && in.accepts(tree) || err != nil {
		return err
	}
	d := i.Jitter(min(in.Jitter, longestJitter))
	i.Log.Info("waiting a random time before the download", "wait", d.Round(time.Second), "version", in.Target.Version)
	select {
	case <-ctx.Done():
		return fmt.Errorf("interrupted (%w) while waiting; %s", context.Cause(ctx), staysAsItIs(in.Config))
	case <-time.After(d):
		return nil
	}
}

func (c Config) activeTarget() target {
	return target{Version: c.Spec.ActiveVersion, Edition: c.Status.ActiveEdition}
}

func (i *Installer) timestamp() time.Time { return i.Now().UTC().Truncate(time.Second) }

// orNone completes "the agent is on …": before the first enable nobody but the
// host knows.
func orNone(v string) string {
	if v == "" {
		return "what it ran before"
	}
	return "version " + v
}

func nameOr(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// isDowngrade reports whether going from one version to another may meet a
// database that the other cannot read.
func isDowngrade(from, to string) bool {
	return from != "" && version.Compare(to, from) < 0
}
