// Package driver steps the rollout in a store, and writes reports on hosts for people. It depends on the store
// and the clock: any number of servers may run one on the same store.
package driver

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
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
	EngineName = "engine"
)

// Options are the parts of an Engine.
type Options struct {
	Store store.Store
	Clock func() time.Time
	// Plans gives access to the plans in the store.
	Plans     *answers.Plans
	Inventory Inventory
	// Answers follow the store.
	Answers Answers
	// Notifier gets the events of each change that this server writes; may be nil.
	Notifier Notifier
	// StoreClock is the store's clock if the store is on another machine; else nil.
	StoreClock func(ctx context.Context) (time.Time, error)
	// SetRight is called when clocks that were too far apart agree again; may be nil.
	SetRight func()
	Log      *slog.Logger
}

// Answers are made from the store. They let no host update from trouble with the store on until they are resumed.
type Answers interface {
	Refresh(ctx context.Context) error
	// Resting returns why no host is let on, or nil.
	Resting() *answers.Rest
	// Resume lets hosts on again, unless there was other trouble since r.
	Resume(r *answers.Rest)
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
	rested *answers.Rest  // of the last tick, if it had no error
	tried  bool           // a tick has tried to write
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
	now, resting := e.opts.Clock(), e.opts.Answers.Resting()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.status.Err = err
		if err == nil {
			e.status.LastTick = now
		} else {
			e.rested = nil
		}
	}()
	if err = e.checkClock(ctx); err == nil { // with a wrong clock no result is right, not even a halt
		changed, err = e.apply(ctx, EngineName, "", func(s seen) (rollout.Result, string, error) {
			result := rollout.Next(s.config, s.version, s.rollout, s.counts, s.now)
			return result, describe(result.Steps), nil
		})
	}
	if err == nil {
		err = e.purge(ctx, now)
	}
	if err == nil {
		err = e.resume(ctx, resting)
	}
	return changed, err
}

// resume lets hosts on again at the second tick in a row that has decided, and written, whatever there was. The other servers have
// ticked as well by then: what hosts have reported to them while the store was away is decided, too. The first tick tries to
// write as well: a server may start on a store that cannot be written.
func (e *Engine) resume(ctx context.Context, resting *answers.Rest) error {
	e.mu.Lock()
	before, tried := e.rested, e.tried
	e.rested, e.tried = resting, true
	e.mu.Unlock()
	if resting == nil && tried {
		return nil
	}
	if err := e.tryWrite(ctx); err != nil || resting == nil {
		return err
	}
	if err := e.opts.Answers.Refresh(ctx); err != nil {
		return err
	}
	if before == resting {
		e.opts.Answers.Resume(resting)
	}
	return nil
}

// triedKey is the key of an item that is written only to see whether the store can be written.
const triedKey = "engine/tried"

func (e *Engine) tryWrite(ctx context.Context) error {
	item, err := e.opts.Store.Get(ctx, triedKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	_, err = e.opts.Store.Put(ctx, triedKey, []byte(`"this item is written to try the store"`), item.Revision)
	if _, is := errors.AsType[*store.ConflictError](err); is {
		return nil // another server has written it
	}
	return err
}
