// Package driver steps the rollout that is in a store, and writes what hosts report for people. Its doors are the
// store and the clock: any number of servers may run one on the same store.
package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

const (
	// TickEvery is how often the engine looks: the index of a plan is written at
	// most this often.
	TickEvery = 10 * time.Second
	// purgeEvery is how often what has expired is removed.
	purgeEvery = time.Hour
	// tickAttempts is how often one tick tries again when another server was
	// faster.
	tickAttempts = 3
	// EngineName is who makes the engine's changes, in the history.
	EngineName = "engine"
)

// Options are the parts of an Engine.
type Options struct {
	Store store.Store
	Clock func() time.Time
	// Plans are those of the store.
	Plans     *answers.Plans
	Inventory Inventory
	// Written is called after each change: hosts are answered by it from then on. Nil: nobody needs to know.
	Written func(ctx context.Context) error
	// StoreClock is the store's clock where that is another machine's; nil: it is this one's.
	StoreClock func(ctx context.Context) (time.Time, error)
	// SetRight is called when the clocks agree again that were too far apart; nil: nobody needs to know.
	SetRight func()
	// Brake holds halts that cannot be written; nil: they are lost.
	Brake Brake
	Log   *slog.Logger
}

// Brake holds halts in the memory of this server until they are written.
type Brake interface {
	// Resources are those that hosts are answered by.
	Resources() answers.Resources
	// HoldHalts has hosts answered by the halts of a rollout that could not be written.
	HoldHalts(ctx context.Context, r *rollout.Rollout)
	// WithHalts returns a rollout with the halts that are held of it, itself if there are none.
	WithHalts(r *rollout.Rollout) *rollout.Rollout
	// LetHaltsGo is called once they are written.
	LetHaltsGo()
}

// Inventory is what the engine counts by.
type Inventory interface {
	// Counting calls f with what hosts report, for a rollout and those of its plans that can be read. Nothing that
	// hosts report changes before f returns: it must not take long, nor keep the functions of the counts.
	Counting(r *rollout.Rollout, plans map[string]*rollout.Index, now time.Time, f func(rollout.Counts))
	// CompleteAt is when every host has had time to report.
	CompleteAt() time.Time
}

// Engine steps the rollout that is in the store. Any number of servers may run one
// on the same store: each change is based on the resources that it was computed
// from, all of them, and whoever comes second starts over from what is there then.
//
// An engine that dies leaves the rollout as it is. Nobody new is told to update
// then, and hosts of a window that ends are told to stay, which is for the Snapshot
// to see to.
type Engine struct {
	opts Options
	wake chan struct{}

	mu     sync.Mutex
	status EngineStatus
	purged time.Time
	skewed bool           // the clocks were too far apart at the last look
	skew   *time.Duration // what the store's clock is ahead of this one's; nil: it was not looked at
}

// EngineStatus is how the engine does.
type EngineStatus struct {
	LastTick  time.Time // that came to an end
	LastWrite time.Time
	Err       error // of the last tick
	// Waiting says that hosts have not had time to report since the server
	// started, and that no group goes on.
	Waiting bool
	// Skew is what the store's clock is ahead of this server's; nil: it is this machine's, or was not looked at yet.
	Skew   *time.Duration
	Counts rollout.Counts // without their functions
}

// NewEngine returns an engine that does nothing until it is run or ticked.
func NewEngine(opts Options) *Engine {
	if opts.Written == nil {
		opts.Written = func(context.Context) error { return nil }
	}
	return &Engine{opts: opts, wake: make(chan struct{}, 1)}
}

// Wake has Run tick at once, after a change of the resources.
func (e *Engine) Wake() {
	select {
	case e.wake <- struct{}{}:
	default: // it is about to
	}
}

// Status returns how the engine does.
func (e *Engine) Status() EngineStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	status := e.status
	status.Skew = e.skew
	return status
}

// Run ticks whenever it is told to, until ctx ends. Errors are logged when they
// begin and when they are over.
func (e *Engine) Run(ctx context.Context, ticks <-chan time.Time) {
	failing := false
	for {
		_, err := e.Tick(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			e.opts.Log.Error("the engine cannot step the rollout, which stays as it is", "error", err)
		case err == nil && failing:
			e.opts.Log.Info("the engine steps the rollout again")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		case <-e.wake:
		}
	}
}

// Tick looks once, and reports whether something was written. A tick that changes
// nothing writes nothing.
func (e *Engine) Tick(ctx context.Context) (changed bool, err error) {
	now := e.opts.Clock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.status.Err = err
		if err == nil {
			e.status.LastTick = now
		}
	}()
	err = e.checkClock(ctx)
	if _, skewed := errors.AsType[*SkewError](err); skewed {
		return false, err // nothing that is reckoned with such a clock is right, a halt neither
	}
	if err == nil {
		changed, err = e.apply(ctx, EngineName, "", func(s seen) (rollout.Result, string, error) {
			result := rollout.Next(s.config, s.version, s.rollout, s.counts, s.now)
			result.Steps = append(s.held(), result.Steps...)
			return result, describe(result.Steps), nil
		})
	}
	switch _, conflict := errors.AsType[*store.ConflictError](err); {
	case err == nil:
		err = e.purge(ctx, now)
	case !conflict && ctx.Err() == nil:
		e.brake(ctx)
	}
	parts.SpareMemory()
	return changed, err
}

// brake has hosts answered by the halts that follow from what they report, by the resources that were read last, while the
// store cannot be written, or not even read: a disk that is full must not keep a version going that breaks hosts.
func (e *Engine) brake(ctx context.Context) {
	if e.opts.Brake == nil {
		return
	}
	last := e.opts.Brake.Resources()
	if last.Rollout == nil {
		return
	}
	plans, _, err := e.opts.Plans.Load(ctx, last.Rollout)
	if err != nil {
		return // without its plan nobody knows which hosts of a group count
	}
	var result rollout.Result
	e.opts.Inventory.Counting(last.Rollout, plans, e.opts.Clock(), func(n rollout.Counts) {
		result = rollout.Next(last.Config, last.Version, last.Rollout, n, e.opts.Clock())
	})
	if slices.ContainsFunc(result.Steps, func(s rollout.Step) bool { return s.Halted }) {
		e.opts.Brake.HoldHalts(ctx, result.Rollout)
	}
}

// Order carries out what a person wants, or returns a *rollout.RefusedError.
func (e *Engine) Order(ctx context.Context, o rollout.Order, dryRun bool) (rollout.Result, error) {
	var last rollout.Result
	_, err := e.apply(ctx, cmp.Or(o.Who, "unknown"), o.Why, func(s seen) (rollout.Result, string, error) {
		result, err := o.Apply(s.config, s.version, s.rollout, s.counts, s.now)
		last = result
		if dryRun {
			result.Rollout, result.Plans = s.stored, nil
		}
		words := []string{string(o.Verb)}
		if o.Force {
			words = append(words, "--force")
		}
		if o.To != "" && o.To != rollout.BackToStart {
			words = append(words, "--to", o.To)
		}
		return result, strings.Join(append(words, o.Groups...), " "), err
	})
	e.Wake()
	return last, err
}

// Scene is what there is now, for people.
func (e *Engine) Scene(ctx context.Context) (scene rollout.Scene, err error) {
	err = e.look(ctx, func(s seen) {
		scene = rollout.Scene{Config: s.config, Version: s.version, Rollout: s.rollout, Counts: s.counts.Detached(), Now: s.now}
	})
	scene.CompleteAt = e.opts.Inventory.CompleteAt()
	return scene, err
}

// LastScene is what there was when the resources were read last, with what hosts report now.
func (e *Engine) LastScene(last answers.Resources) rollout.Scene {
	scene := rollout.Scene{Config: last.Config, Version: last.Version, Rollout: last.Rollout, Now: e.opts.Clock(),
		CompleteAt: e.opts.Inventory.CompleteAt()}
	if last.Rollout != nil {
		e.opts.Inventory.Counting(last.Rollout, nil, scene.Now, func(n rollout.Counts) { scene.Counts = n.Detached() })
	}
	return scene
}

// CountedScene is what there was when the resources were read last, with what the engine counted last: nothing is read or
// counted for it. Counts of another rollout are left out; the next look, within seconds, has others.
func (e *Engine) CountedScene(last answers.Resources) rollout.Scene {
	scene := rollout.Scene{Config: last.Config, Version: last.Version, Rollout: last.Rollout, Now: e.opts.Clock(),
		CompleteAt: e.opts.Inventory.CompleteAt()}
	if n := e.Status().Counts; last.Rollout != nil && len(n.Groups) == len(last.Rollout.Status.Groups) {
		scene.Counts = n
	} else if last.Rollout != nil {
		scene.Counts.Groups = make([]rollout.GroupCounts, len(last.Rollout.Status.Groups))
	}
	return scene
}

// Foresee returns the warnings of rollout.Foresee for a scene that comes without counts.
func (e *Engine) Foresee(s rollout.Scene) []string {
	if s.Version == nil {
		return nil
	}
	if s.Rollout == nil || !s.Rollout.Of(s.Version) {
		s.Rollout = rollout.NewRollout(s.Config, s.Version, s.Now)
	}
	e.opts.Inventory.Counting(s.Rollout, nil, s.Now, func(n rollout.Counts) { s.Counts = n.Detached() })
	return rollout.Foresee(s)
}

// seen is all that a change is computed from.
type seen struct {
	config   *rollout.Config
	version  *rollout.Version
	rollout  *rollout.Rollout
	stored   *rollout.Rollout // the same without halts that are not written yet
	counts   rollout.Counts
	revision map[string]store.Revision
	of       store.Identity // that the revisions are of
	now      time.Time
}

// held are the halts that are written late: this server could not write them when they came.
func (s *seen) held() (steps []rollout.Step) {
	if s.rollout == s.stored {
		return nil
	}
	for i := range s.rollout.Status.Groups {
		g := &s.rollout.Status.Groups[i]
		if g.Halted != nil && s.stored.Status.Groups[i].Halted == nil {
			steps = append(steps, rollout.Step{Group: g.Name, From: g.State, To: g.State, Halted: true, Reason: g.Halted.Reason,
				Message: g.Halted.Message})
		}
	}
	return steps
}

// look calls f with all that there is now. The functions of the counts hold until f returns.
func (e *Engine) look(ctx context.Context, f func(seen)) error {
	of, err := e.opts.Store.Identity(ctx)
	if err != nil {
		return err
	}
	n, err := answers.ReadResources(ctx, e.opts.Store)
	if err != nil {
		return err
	}
	s := seen{of: of, config: n.Config, version: n.Version, rollout: n.Rollout, revision: n.Revisions, now: e.opts.Clock()}
	if s.stored = s.rollout; s.rollout == nil {
		f(s)
		return nil
	}
	if e.opts.Brake != nil {
		s.rollout = e.opts.Brake.WithHalts(s.rollout)
	}
	plans, _, err := e.opts.Plans.Load(ctx, s.rollout)
	if err != nil {
		return err
	}
	e.opts.Inventory.Counting(s.rollout, plans, s.now, func(n rollout.Counts) {
		s.counts = n
		f(s)
	})
	e.noteCounts(s.counts.Detached())
	return nil
}

func (e *Engine) noteCounts(n rollout.Counts) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status.Counts = n
	if waiting := !n.Complete; waiting != e.status.Waiting {
		e.status.Waiting = waiting
		if waiting {
			e.opts.Log.Info("no group goes on until hosts have had time to report to this server", "time", rollout.PresentFor)
		} else {
			e.opts.Log.Info("hosts have had time to report, and groups go on")
		}
	}
}

// apply computes a change from what there is, and writes it where all of that is
// still so; else it starts over. step also says what the change is called.
func (e *Engine) apply(ctx context.Context, who, why string, step func(seen) (rollout.Result, string, error)) (changed bool, err error) {
	for attempt := 1; ; attempt++ {
		var s seen
		var result rollout.Result
		var what string
		var refused error
		err := e.look(ctx, func(now seen) {
			s = now
			result, what, refused = step(now)
		})
		if err == nil {
			err = refused
		}
		if err != nil || result.Rollout == s.stored {
			return false, err
		}
		audit := store.Audit{Time: s.now, Who: who, What: what, Why: why}
		if what == "" {
			audit = store.Audit{} // counts, and how far a plan is: nobody's decision
		}
		err = e.write(ctx, s, result, audit)
		_, conflict := errors.AsType[*store.ConflictError](err)
		late := errors.Is(err, errOld) || errors.Is(err, store.ErrLate) || errors.Is(err, store.ErrReplaced)
		if (conflict || late) && attempt < tickAttempts {
			continue
		}
		if err != nil {
			return false, err
		}
		for _, step := range result.Steps {
			e.opts.Log.Info("rollout", "group", step.Group, "from", step.From, "to", step.To, "halted", step.Halted, "reason", step.Reason,
				"message", step.Message, "by", who)
		}
		e.mu.Lock()
		e.status.LastWrite = s.now
		e.mu.Unlock()
		if e.opts.Brake != nil {
			e.opts.Brake.LetHaltsGo()
		}
		// It is written; should the reading fail, who watches the store goes on with it.
		_ = e.opts.Written(ctx)
		return true, nil
	}
}

// write puts the rollout and its plans into the store, on the condition that all of
// what they were computed from is as it was.
func (e *Engine) write(ctx context.Context, s seen, result rollout.Result, audit store.Audit) (err error) {
	next := *result.Rollout
	next.Metadata.Revision = 0
	value, err := rollout.JSON(&next)
	if err != nil {
		return err
	}
	change := store.Change{Audit: audit, Deadline: e.deadline(s.now), Of: s.of, Writes: []store.Write{
		{Key: rollout.KindConfig, Based: s.revision[rollout.KindConfig], Do: store.Keep},
		{Key: rollout.KindVersion, Based: s.revision[rollout.KindVersion], Do: store.Keep},
		{Key: rollout.KindRollout, Value: value, Based: s.revision[rollout.KindRollout]},
	}}
	notices, err := noticesOf(s, &next, audit)
	if err != nil {
		return err
	}
	change.Writes = append(change.Writes, notices...)
	plans := e.opts.Plans
	var ready []*answers.Prepared
	defer func() {
		for _, p := range ready {
			if err != nil {
				err = errors.Join(err, plans.Drop(p))
			} else if old := plans.DropOld(ctx, p); old != nil {
				e.opts.Log.Warn("pages that nobody needs stay until they expire", "error", old)
			}
		}
	}()
	for _, plan := range result.Plans {
		p, err := plans.Prepare(ctx, plan, s.now)
		if err != nil {
			return err
		}
		ready = append(ready, p)
		change.Writes = append(change.Writes, p.Head)
	}
	if e.isOld(s) {
		return errOld
	}
	if _, err = e.opts.Store.Commit(ctx, change); err != nil {
		return err
	}
	for _, p := range ready {
		plans.Keep(&next, p)
	}
	return nil
}

// maxAge is how old counts may be when what follows from them is written.
const maxAge = 30 * time.Second

// errOld says that this process was paused, or the store was slow.
var errOld = fmt.Errorf("what hosts report was counted more than %s ago, and nothing follows from it", maxAge)

// isOld reports whether the counts are older than maxAge by either clock: that of the machine stands still while the
// machine does.
func (e *Engine) isOld(s seen) bool {
	now := e.opts.Clock()
	return max(now.Sub(s.now), now.Round(0).Sub(s.now.Round(0))) > maxAge
}

// purge removes what has expired, now and then.
func (e *Engine) purge(ctx context.Context, now time.Time) error {
	e.mu.Lock()
	due := now.Sub(e.purged) >= purgeEvery
	if due {
		e.purged = now
	}
	e.mu.Unlock()
	if !due {
		return nil
	}
	// A server whose clock is ahead takes nothing from the others.
	at, err := e.opts.Store.Now(ctx)
	if err != nil {
		return err
	}
	if at.Before(now) {
		now = at
	}
	removed, err := e.opts.Store.Purge(ctx, now)
	if removed > 0 {
		e.opts.Log.Info("removed what has expired", "items", removed)
	}
	return err
}

// maxDescription bounds a record of the history.
const maxDescription = 2000

// describe names the steps of the engine in a line; empty for none.
func describe(steps []rollout.Step) string {
	var words []string
	for _, s := range steps {
		switch {
		case s.Group == "":
			words = append(words, fmt.Sprintf("a new rollout (%s)", s.Reason))
		case s.Halted:
			words = append(words, fmt.Sprintf("%s halted (%s: %s)", s.Group, s.Reason, s.Message))
		default:
			words = append(words, fmt.Sprintf("%s %s → %s (%s)", s.Group, s.From, s.To, s.Reason))
		}
	}
	text := strings.Join(words, ", ")
	if len(text) > maxDescription {
		text = strings.ToValidUTF8(text[:maxDescription], "") + "…"
	}
	return text
}
