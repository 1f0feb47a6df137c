package installer

import (
	"context"
	"fmt"
	"os"
	"time"

	"teleport-update/find"
	"teleport-update/find/want"
	"teleport-update/installer/decision"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
)

// An answer of find older than this is asked for again before the transaction: the
// cluster may have withdrawn the version meanwhile.
const answerHoldsFor = time.Minute

// A longer jitter than this is cut: the timer's unit is bounded in time, and a
// host that waits is a host that stays behind.
const longestJitter = time.Hour

// UpdateOptions are the flags of update.
type UpdateOptions struct {
	Now        bool // override jitter, the turn of the host's group, back-off and hold
	SkipBackup bool // switch without a backup of the database
	Restart    bool // restart the agent, if a reload would keep old settings of its unit
}

// Update is one tick: it brings the host to the version that find wants, if
// updates are enabled, find wants it now, and the version is not held, pinned
// or backing off. A person's command also starts an agent that failed.
func (i *Installer) Update(ctx context.Context, opts UpdateOptions) error {
	t := i.beginTick()
	return t.end(ctx, t.update(ctx, opts))
}

func (t *tick) update(ctx context.Context, opts UpdateOptions) error {
	// Most ticks of a disabled host end here: no lock, no TLS, no D-Bus.
	if t.nothingOpen() && t.isOff(ctx) {
		t.i.Machine.Host.Log.Info("updates are disabled; nothing to do")
		t.report(ctx)
		return nil
	}
	in, damaged, err := t.i.consider(ctx, opts)
	t.waited()
	t.report(ctx)
	if err != nil {
		return err
	}
	if damaged != nil && in == nil {
		if !t.mayFetch(ctx, *damaged) {
			return nil
		}
		defer t.waited()
		return t.i.fetchAgain(ctx, *damaged)
	}
	if in == nil {
		if t.isOff(ctx) {
			return nil // the open transaction is closed, and the host is left alone
		}
		t.tidy(ctx)
		return t.seeAgentRun(ctx, opts.Restart)
	}
	if !t.mayFetch(ctx, in.wanted) {
		return nil
	}
	defer t.waited()
	asked := t.i.Machine.Now()
	if err := t.i.waitJitter(ctx, in, opts); err != nil {
		return err
	}
	if err := makeWhole(ctx, t.i, in.wanted, opts.Now, "teleport-update update --now"); err != nil {
		return err
	}
	tree, unclaim, err := t.i.obtainer().obtain(ctx, in.wanted)
	if err != nil {
		return t.i.obtainer().recordEarlyFailure(ctx, in.wanted, err)
	}
	defer unclaim()
	if t.i.Machine.Now().Sub(asked) > answerHoldsFor {
		again, _, err := t.i.consider(ctx, opts)
		if err != nil {
			return err
		}
		if again == nil || again.Release != in.Release {
			t.i.Machine.Host.Log.Info("the cluster named another version during the download; the next run asks again", "was", in.Version)
			return nil
		}
	}
	if err := t.i.Machine.Host.CheckFIPS(tree); err != nil {
		return reportTickRefused(ctx, t.i.Machine, in.Release, err)
	}
	in.Request.To = transaction.TreeOf(tree)
	return t.i.transact(ctx, in.Request)
}

// seeAgentRun starts an agent that failed, or restarts the agent if a person asked for that. A run of the timer has done its part:
// see startGivenUp.
func (t *tick) seeAgentRun(ctx context.Context, restart bool) error {
	if t.i.Machine.Scheduled {
		return nil
	}
	if agent, err := t.host().Agent(ctx); !restart && (err != nil || !failed(agent.Unit)) {
		return nil
	}
	defer t.waited()
	return t.i.restartAgent(ctx)
}

// isOff reports whether updates are off. It remembers a policy of the host all the same, for the day on which somebody enables them.
func (t *tick) isOff(ctx context.Context) bool {
	c, err := t.host().Config()
	if err != nil || c.Spec.Enabled {
		return false
	}
	if p, err := t.i.ownerRules().policy(c); err == nil && c.Spec.ActiveVersion != "" {
		t.i.ownerRules().rememberSeen(ctx, c, p)
	}
	return true
}

// nothingOpen reports whether a host on which updates are off has nothing to close. A run of the timer looks for the journal and the notes
// of stops only. A person may have moved an unreadable journal away, as the message about it says; then only the backup shows the
// transaction, and only a look under the update lock finds it.
func (t *tick) nothingOpen() bool {
	p := t.i.Machine.Host.Paths
	return transaction.IsClosed(p) && (t.i.Machine.Scheduled || host.Absent(p.Versions()))
}

// consider is the part of a tick under the update lock: recover, repair, ask, decide, and refuse early what would be refused after the
// download anyway. A nil intent means that there is nothing to switch to; the log says why. damaged is then the active version, if it has
// to be fetched again.
func (i *Installer) consider(ctx context.Context, opts UpdateOptions) (in *intent, damaged *wanted, err error) {
	c, unlock, err := i.Machine.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	if !c.Spec.Enabled {
		i.Machine.Host.Log.Info("updates are disabled; nothing to do")
		return nil, nil, nil
	}
	spec := c.Spec
	if err := i.Machine.Host.ResolveProxy(&spec); err != nil {
		return nil, nil, err
	}
	// At each run, so that a policy that vanishes later is missed. Its errors count below.
	rules, broken := i.ownerRules().seePolicy(&c)
	whole, err := i.repair(ctx, c, !i.Machine.Scheduled)
	if err != nil {
		if !failure.Is[*failure.RefusedError](err) {
			err = fmt.Errorf("%w; %s", err, transaction.StaysAsItIs(c))
		}
		return nil, nil, err
	}
	i.Machine.RecordSchema(ctx, &c)
	if err := i.Machine.TakeOverLeft(ctx, &c); err != nil {
		return nil, nil, err
	}
	if !whole {
		damaged = &wanted{Release: c.Active(), Config: c, Spec: spec, Retried: true}
	}
	if c.Spec.Pinned {
		i.Machine.Host.Log.Info("the host is pinned", "version", c.Spec.ActiveVersion)
		return nil, damaged, nil
	}
	if _, err := templates(spec.URLTemplates); err != nil {
		// Not only when there is something to fetch, at four in the morning.
		return nil, nil, fmt.Errorf("%w; %s: name others with `teleport-update enable --template`", err, transaction.StaysAsItIs(c))
	}
	answer, err := i.finder().ask(ctx, spec)
	if err != nil {
		if damaged != nil {
			i.Machine.Host.Log.Warn("the proxy's find endpoint does not answer; the active version is fetched again all the same", "error", err)
			return nil, damaged, nil
		}
		return nil, nil, unanswered(err, c)
	}
	if err := i.takeUpRetry(&c, answer); err != nil {
		return nil, damaged, fmt.Errorf("%w; %s: the next run tries again", err, transaction.StaysAsItIs(c))
	}
	if !opts.Now {
		if err := hearHeld(i, &c, answer); err != nil {
			return nil, damaged, err
		}
	}
	d := i.decide(ctx, c, spec, answer, opts.Now)
	if !d.Change() {
		i.Machine.Host.Log.Info(decision.WhyNot(d, c.Status))
		if cameWithPackage(i, c, d.Release) {
			i.Machine.Host.Log.Info("the active version came with a package, and the release takes its place", "version", d.Release.Short())
			damaged = &wanted{Release: d.Release, Config: c, Spec: spec, Retried: true}
		}
		return nil, damaged, nil
	}
	in = &intent{wanted: wanted{Release: d.Release, Config: c, Spec: spec, SHA256: d.SHA256, Retried: true}, Jitter: answer.Jitter}
	in.Request = updateRequest(c, d, opts)
	if d.SHA256 != "" {
		i.Machine.Host.Log.Info("the version that failed was published again; it is tried again",
			"version", d.Release.Version, "sha256", d.SHA256)
	}
	if err = broken; err == nil {
		err = refusedByOwner(rules.Floors(d.Release, d.SHA256))
	}
	if err == nil {
		err = foresee(ctx, i.Machine, c, in.Request)
	}
	if failure.Is[*failure.RefusedError](err) {
		return nil, damaged, i.Machine.ReportRefusal(&c, d.Release, err)
	}
	if err != nil {
		return nil, nil, err
	}
	return in, nil, nil
}

// unanswered returns the error of a run that did not learn what the cluster wants.
func unanswered(err error, c state.Config) error {
	return &unansweredError{fmt.Errorf("%w; %s: the next run tries again", err, transaction.StaysAsItIs(c)), find.Unreachable(err)}
}

// hearHeld notes what the cluster wants while a rollback holds it back.
func hearHeld(i *Installer, c *state.Config, answer find.Answer) error {
	if !c.Status.Held.Hear(releaseOf(answer), c.Active()) {
		return nil
	}
	if err := c.Save(i.Machine.Host.Paths.Config()); err != nil {
		return fmt.Errorf("note what the rollback holds back: %w; %s: the next run tries again", err, transaction.StaysAsItIs(*c))
	}
	return nil
}

// cameWithPackage reports whether a version is the active one, and was installed by a package.
func cameWithPackage(i *Installer, c state.Config, target version.Release) bool {
	tree, ok, err := i.Machine.Active(c)
	return err == nil && ok && target == tree.Release && tree.Origin != ""
}

// takeUpRetry ends the back-off if somebody had hosts try the version again. It records the retry before the attempt: each retry is one
// attempt, however it ends.
func (i *Installer) takeUpRetry(c *state.Config, answer find.Answer) error {
	target := releaseOf(answer)
	backedOff := c.Status.FailureOf(target).BackingOff(target, i.Machine.Now())
	if !answer.AutoUpdate || !c.Status.TakeUpRetry(answer.RetryFailed, target, i.Machine.Now()) {
		return nil
	}
	if backedOff {
		i.Machine.Host.Log.Info("somebody had hosts try the version again: the host does not wait any longer",
			"version", target.Version, "retry_failed", answer.RetryFailed.Format(time.RFC3339))
	}
	return c.Save(i.Machine.Host.Paths.Config())
}

// updateRequest returns the request of a tick.
func updateRequest(c state.Config, d want.Decision, opts UpdateOptions) transaction.Request {
	r := transaction.Request{Kind: transaction.Update, From: c.Active(), To: named(d.Release), Now: opts.Now, SkipBackup: opts.SkipBackup,
		Restart: opts.Restart}
	if d.Downgrade {
		r.Kind = transaction.Downgrade
	}
	return r
}

// waitJitter spreads the load on the mirrors, and the restarts of a fleet: a version
// that is already on disk is waited for as well, or all hosts of a cluster that goes
// back would restart at once. It holds no lock.
func (i *Installer) waitJitter(ctx context.Context, in *intent, opts UpdateOptions) error {
	if opts.Now || in.Jitter == 0 {
		return nil
	}
	d := i.Jitter(min(in.Jitter, longestJitter))
	i.Machine.Host.Log.Info("waiting a random time before the change", "wait", d.Round(time.Second), "version", in.Version)
	defer i.saveWait(ctx, i.Machine.Timestamp().Add(d))()
	select {
	case <-ctx.Done():
		return fmt.Errorf("interrupted (%w) while waiting; %s", context.Cause(ctx), transaction.StaysAsItIs(in.Config))
	case <-time.After(d):
		return nil
	}
}

// saveWait has status say until when this run waits. The function that it returns ends
// that.
func (i *Installer) saveWait(ctx context.Context, until time.Time) (over func()) {
	self := i.Processes.Process(os.Getpid())
	note := func(w *state.Waiting) {
		t := i.ticks()
		t.Waiting = w
		if err := t.Save(i.Machine.Host.Paths.Ticks()); err != nil {
			i.Machine.Host.Log.Debug("the wait could not be noted for status", "error", err)
		}
	}
	if self == nil {
		return func() {}
	}
	note(&state.Waiting{PID: self.PID, Start: self.Start, Until: until})
	now := i.survey()
	defer now.Close()
	i.publish(ctx, now)
	return func() { note(nil) }
}

// decide decides about an answer of find. If a version backs off, decide first asks the mirrors whether they still have the release that
// failed. If that is not known, the version stays backed off.
func (i *Installer) decide(ctx context.Context, c state.Config, spec state.Spec, answer find.Answer, now bool) want.Decision {
	wish := want.Wish{Release: releaseOf(answer), Due: answer.AutoUpdate}
	turn := want.Turn{At: i.Machine.Now(), Scheduled: i.Machine.Scheduled, Now: now}
	agent := c.Agent(wish.Release, turn.At)
	d := want.Decide(wish, agent, turn)
	if d.Why != want.BackingOff {
		return d
	}
	var err error
	if turn.Announced, err = i.obtainer().announced(ctx, c, d.Release, spec); err != nil {
		i.Machine.Host.Log.Debug("it is not known whether the version that failed was published again",
			"version", d.Release.Version, "error", err)
		return d
	}
	return want.Decide(wish, agent, turn)
}
