package answers

import (
	"context"
	"errors"
	"time"

	"teleport-update/find/store"
)

// Rest is why this server lets no host update: a change could not be written, the store could not be read, or another
// store has taken its place. A failure that a host reports meanwhile would halt nothing, and halts may be lost with the
// earlier store.
type Rest struct{ Err error }

// Resting returns why no host is let on, or nil.
func (s *Stored) Resting() *Rest { return s.resting.Load() }

func (s *Stored) rest(err error) {
	if before := s.resting.Swap(&Rest{err}); before == nil {
		s.opts.Log.Error("no host is told to update until the store can be written and read", "error", err)
	}
}

// Resume lets hosts on again, unless there was trouble since r. The engine calls it when it has decided which groups halt.
func (s *Stored) Resume(r *Rest) {
	if s.resting.CompareAndSwap(r, nil) {
		s.opts.Log.Info("the store can be written and read again: hosts are told what it says")
	}
}

// mayUpdate reports whether this server tells any host to update.
func (s *Stored) mayUpdate() bool { return s.resting.Load() == nil }

var errOtherStore = errors.New("the store was replaced by another one or by an older copy")

// Store returns the store behind the answers. All parts of a server write through it, so that the answers rest after a change
// that the store did not take.
func (s *Stored) Store() store.Store { return s.opts.Store }

// watchedStore is a store whose failing writes make answers rest.
type watchedStore struct {
	store.Store
	answers *Stored
}

func (w *watchedStore) Put(ctx context.Context, key string, value []byte, based store.Revision) (store.Revision, error) {
	at, err := w.Store.Put(ctx, key, value, based)
	w.takeResult(err)
	return at, err
}

func (w *watchedStore) Commit(ctx context.Context, c store.Change) ([]store.Revision, error) {
	if err := c.Check(); err != nil {
		return nil, err // no store takes it
	}
	revisions, err := w.Store.Commit(ctx, c)
	w.takeResult(err)
	return revisions, err
}

func (w *watchedStore) Delete(ctx context.Context, key string, based store.Revision) error {
	err := w.Store.Delete(ctx, key, based)
	w.takeResult(err)
	return err
}

func (w *watchedStore) Purge(ctx context.Context, now time.Time) (int, error) {
	removed, err := w.Store.Purge(ctx, now)
	w.takeResult(err)
	return removed, err
}

// takeResult takes up the result of a write. A store that refuses a change, for a reason of the change, can be written.
func (w *watchedStore) takeResult(err error) {
	_, isConflict := errors.AsType[*store.ConflictError](err)
	isAnswer := isConflict || errors.Is(err, store.ErrLate) || errors.Is(err, store.ErrReplaced)
	if err != nil && !isAnswer && !errors.Is(err, context.Canceled) {
		w.answers.rest(err)
	}
}
