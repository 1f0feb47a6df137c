package metrics

import (
	"context"
	"errors"
	"time"

	"teleport-update/find/store"
)

// operations of a store.
var operations = []string{"get", "list", "scan", "changes", "put", "commit", "delete", "purge", "history"}

// Store returns a store whose operations are counted and timed.
func (m *Metrics) Store(s store.Store) store.Store { return &measured{s, m} }

type measured struct {
	store store.Store
	m     *Metrics
}

// done counts an operation that has ended. A conflict with another server, or a missing
// item, is no error of the store.
func (s *measured) done(operation string, began time.Time, err error) {
	s.m.store.WithLabelValues(operation).Observe(time.Since(began).Seconds())
	_, conflict := errors.AsType[*store.ConflictError](err)
	if err != nil && !conflict && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, context.Canceled) {
		s.m.failed.WithLabelValues(operation).Inc()
	}
}

func (s *measured) Get(ctx context.Context, key string) (store.Item, error) {
	began := time.Now()
	item, err := s.store.Get(ctx, key)
	s.done("get", began, err)
	return item, err
}

func (s *measured) List(ctx context.Context, prefix string) ([]store.Item, store.Revision, error) {
	began := time.Now()
	items, at, err := s.store.List(ctx, prefix)
	s.done("list", began, err)
	return items, at, err
}

func (s *measured) Scan(ctx context.Context, prefix string, f func(store.Item) bool) (store.Revision, error) {
	began := time.Now()
	at, err := s.store.Scan(ctx, prefix, f)
	s.done("scan", began, err)
	return at, err
}

func (s *measured) Changes(ctx context.Context, prefix string, since store.Revision, limit int) ([]store.Item, store.Revision, error) {
	began := time.Now()
	items, at, err := s.store.Changes(ctx, prefix, since, limit)
	s.done("changes", began, err)
	return items, at, err
}

func (s *measured) Put(ctx context.Context, key string, value []byte, based store.Revision) (store.Revision, error) {
	began := time.Now()
	at, err := s.store.Put(ctx, key, value, based)
	s.done("put", began, err)
	return at, err
}

func (s *measured) Commit(ctx context.Context, c store.Change) ([]store.Revision, error) {
	began := time.Now()
	at, err := s.store.Commit(ctx, c)
	s.done("commit", began, err)
	return at, err
}

func (s *measured) Delete(ctx context.Context, key string, based store.Revision) error {
	began := time.Now()
	err := s.store.Delete(ctx, key, based)
	s.done("delete", began, err)
	return err
}

func (s *measured) Purge(ctx context.Context, now time.Time) (int, error) {
	began := time.Now()
	removed, err := s.store.Purge(ctx, now)
	s.done("purge", began, err)
	return removed, err
}

func (s *measured) History(ctx context.Context, limit int) ([]store.HistoryEntry, error) {
	began := time.Now()
	records, err := s.store.History(ctx, limit)
	s.done("history", began, err)
	return records, err
}

func (s *measured) Identity(ctx context.Context) (store.Identity, error) {
	return s.store.Identity(ctx)
}

func (s *measured) Now(ctx context.Context) (time.Time, error) { return s.store.Now(ctx) }
