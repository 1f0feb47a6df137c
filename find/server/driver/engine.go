// Package driver steps the rollout in a store, and writes reports on hosts for people. It depends on the store
// and the clock: any number of servers may run one on the same store.
package driver

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

const (
	// TickEvery is the time between two ticks: the index of a plan is written at most
	// this often.
	TickEvery = 10 * time.Second
	// purgeEvery is the time between two removals of expired items.
	purgeEvery = time.Hour
	// tickAttempts is how often a tick tries again when another server was faster.
	tickAttempts = 3
	// EngineName names the engine in the history.
	EngineName = answers.EngineName
)

// Options are the parts of an Engine.
type Options struct {
	Store store.Store
	Clock func() time.Time
	// Plans gives access to the plans in the store.
	Plans     *answers.Plans
	Inventory Inventory
	// Written is called after each change, so that answers follow it; may be nil.
	Written func(ctx context.Context) error
	// Notifier gets the events of each change that this server writes; may be nil.
	Notifier Notifier
	// StoreClock is the store's clock if the store is on another machine; else nil.
	StoreClock func(ctx context.Context) (time.Time, error)
	// SetRight is called when clocks that were too far apart agree again; may be nil.
	SetRight func()
	// Brake holds halts that cannot be written; nil: they are lost.
	Brake Brake
	Log   *slog.Logger
}

// Brake holds halts in the memory of this server until they are written.
type Brake interface {
	// Resources returns the resources behind the answers.
	Resources() answers.Resources
	// HoldHalts puts the halts of a rollout into the answers. They could not be written.
	HoldHalts(r *rollout.Rollout)
	// KeepHalts keeps the halts of a rollout that was just written in the answers until the store was read
	// again.
	KeepHalts(r *rollout.Rollout)
	// WithHalts returns a rollout with its held halts, or the rollout itself if there are none.
	WithHalts(r *rollout.Rollout) *rollout.Rollout
	// LetHaltsGo is called when a rollout was written that was computed from seen, a rollout with held halts.
	LetHaltsGo(seen *rollout.Rollout)
}

// Inventory counts hosts for the engine.
type Inventory interface {
	// Counting calls f with the counts for a rollout and its readable plans. No report is taken before f
	// returns: f must not take long, nor keep the functions of the counts.
	Counting(r *rollout.Rollout, plans map[string]*rollout.Index, now time.Time, f func(rollout.Counts))
	// CompleteAt is when every host has had time to report.
	CompleteAt() time.Time
}

// Engine steps the rollout in the store. Any number of servers may run one on the same
// store: a change is based on all resources from which it was computed, and the slower
// of two servers starts over from the new state.
//
// An engine that dies leaves the rollout as it is. Then no other host updates, and the
// Snapshot makes hosts stay when a window ends.
type Engine struct {
	opts Options
	wake chan struct{}

	mu     sync.Mutex
	status EngineStatus
	purged time.Time
	skewed bool           // the clocks were too far apart at the last look
	skew   *time.Duration // how far the store's clock is ahead; nil: it was not looked at
}

// EngineStatus is the state of the engine.
type EngineStatus struct {
	LastTick  time.Time // the last one without an error
	LastWrite time.Time
	Err       error // of the last tick
	// Waiting says that no group goes on, since hosts have not had time to report after
	// the server's start.
	Waiting bool
	// Skew is how far the store's clock is ahead of this server's; nil: both are one, or it was not looked at
	// yet.
	Skew   *time.Duration
	Counts rollout.Counts // without their functions
}

// Notifier posts events.
type Notifier interface {
	// Post posts the events of a change that was written.
	Post(events []rollout.Notice)
	// PostStored posts the events in the store. It is for a change of which nobody knows whether it was
	// written.
	PostStored()
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
	default: // Run is about to tick
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

// Run ticks on each tick and each Wake, until ctx ends. It logs errors when they begin
// and when they are over.
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

// Tick looks once, and reports whether it wrote. It writes nothing if nothing changes.
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
		return false, err // with such a clock no result is right, not even a halt
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

// brake puts halts that follow from hosts' reports into the answers, by the resources that were read last, while the store
// cannot be written or read: a full disk must not keep a bad version going.
func (e *Engine) brake(ctx context.Context) {
	if e.opts.Brake == nil {
		return
	}
	last := e.opts.Brake.Resources()
	if last.Rollout == nil {
		return
	}
	// Without its plan nobody knows which hosts of a group count. The other groups are halted all the same.
	plans, _, _ := e.opts.Plans.Load(ctx, last.Rollout)
	var result rollout.Result
	e.opts.Inventory.Counting(last.Rollout, plans, e.opts.Clock(), func(n rollout.Counts) {
		result = rollout.Next(last.Config, last.Version, last.Rollout, n, e.opts.Clock())
	})
	if slices.ContainsFunc(result.Steps, isHalt) {
		e.opts.Brake.HoldHalts(result.Rollout)
	}
}

func isHalt(s rollout.Step) bool { return s.Halted }
