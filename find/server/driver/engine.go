// Package driver steps the rollout that is in a store, and writes what hosts report for people. Its doors are the
// store and the clock: any number of servers may run one on the same store.
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
	// TickEvery is how often the engine looks: the index of a plan is written at
	// most this often.
	TickEvery = 10 * time.Second
	// purgeEvery is how often what has expired is removed.
	purgeEvery = time.Hour
	// tickAttempts is how often one tick tries again when another server was
	// faster.
	tickAttempts = 3
	// EngineName is who makes the engine's changes, in the history.
	EngineName = answers.EngineName
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
	// Notifier gets the events of each change that this server writes; nil: nobody does.
	Notifier Notifier
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
	HoldHalts(r *rollout.Rollout)
	// KeepHalts has hosts answered by the halts of a rollout that was just written, until the store was read again.
	KeepHalts(r *rollout.Rollout)
	// WithHalts returns a rollout with the halts that are held of it, itself if there are none.
	WithHalts(r *rollout.Rollout) *rollout.Rollout
	// LetHaltsGo is called once a rollout was written that was computed from another one, seen, with the halts of that.
	LetHaltsGo(seen *rollout.Rollout)
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

// Notifier posts events.
type Notifier interface {
	// Post posts the events of a change that was written.
	Post(events []rollout.Notice)
	// PostStored posts events that the store has, after a change of which nobody knows whether it was written.
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
	// Without its plan nobody knows which hosts of a group count; the others are halted all the same.
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
