// Package postgres is a store.Store in a PostgreSQL database, which servers on several machines may use at once.
//
// Every change first locks the one row of the table head: changes are made one after the other, and each sees the result
// of the previous one. A change, its records and its revision are one transaction, and the database's clock checks the
// deadline of a change in the same message as the commit. A server that is paused amid a change delays the
// others for idleLimit at most; then the database undoes its change.
//
// The database may fail over to a standby that lacks the last acknowledged changes. The first change on another timeline
// begins a new epoch: its revisions are larger than all earlier ones, a reader cannot continue from an earlier revision
// (store.ErrTooOld), and the history says so.
package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"teleport-update/find/store"
)

// Store is a store.Store in a database.
type Store struct {
	pool *pgxpool.Pool
	name string // for people; without secrets
	// synchronous is the role's synchronous_commit when the store was opened.
	synchronous string
}

var _ store.Store = (*Store)(nil)

// Close closes all connections.
func (s *Store) Close() error {
	s.pool.Close()
	return nil
}

// Warning describes a dangerous setting of the database; otherwise empty.
func (s *Store) Warning() string {
	if s.synchronous != "off" {
		return ""
	}
	return "synchronous_commit of the role or the database is off: if the database crashes, changes are lost that were acknowledged, and " +
		"nothing says so; set it to on (ALTER ROLE … SET synchronous_commit = on)"
}

// String returns the address of the database, without secrets.
func (s *Store) String() string { return s.name }

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) (item store.Item, err error) {
	if err := store.CheckKey(key); err != nil {
		return store.Item{}, err
	}
	err = s.do(ctx, operationLimit, func(ctx context.Context, c *pgxpool.Conn) error {
		item = store.Item{Key: key}
		err := c.QueryRow(ctx, "SELECT value, revision FROM teleport_find.resources WHERE key = $1", key).Scan(&item.Value, &item.Revision)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.ErrNotFound
		}
		return err
	})
	if err != nil {
		return store.Item{}, err
	}
	return item, nil
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, prefix string) (items []store.Item, at store.Revision, err error) {
	at, err = s.Scan(ctx, prefix, func(item store.Item) bool {
		items = append(items, item)
		return true
	})
	if err != nil {
		return nil, store.None, err
	}
	return items, at, nil
}

// Scan implements store.Store. It is not repeated after a call of f: f may have kept its argument.
func (s *Store) Scan(ctx context.Context, prefix string, f func(store.Item) bool) (at store.Revision, err error) {
	err = s.do(ctx, scanLimit, func(ctx context.Context, c *pgxpool.Conn) error {
		called := false
		err := moment(ctx, c, func(tx pgx.Tx) (err error) {
			if at, _, err = position(ctx, tx); err != nil {
				return err
			}
			return pages(ctx, tx, prefix, func(item archived) (bool, error) {
				called = true
				return f(item.Item), nil
			})
		})
		if err != nil && called {
			return &finalError{err}
		}
		return err
	})
	if err != nil {
		return store.None, err
	}
	return at, nil
}

// Changes implements store.Store.
func (s *Store) Changes(ctx context.Context, prefix string, since store.Revision, limit int) (items []store.Item, upTo store.Revision,
	err error) {
	err = s.do(ctx, operationLimit, func(ctx context.Context, c *pgxpool.Conn) error {
		items = nil
		return moment(ctx, c, func(tx pgx.Tx) (err error) {
			items, upTo, err = changes(ctx, tx, prefix, since, limit)
			return err
		})
	})
	if err != nil {
		return nil, store.None, err
	}
	return items, upTo, nil
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, value []byte, based store.Revision) (store.Revision, error) {
	revisions, err := s.Commit(ctx, store.Change{Writes: []store.Write{{Key: key, Value: value, Based: based}}})
	if err != nil {
		return store.None, err
	}
	return revisions[0], nil
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key string, based store.Revision) error {
	_, err := s.Commit(ctx, store.Change{Writes: []store.Write{{Key: key, Based: based, Do: store.Remove}}})
	return err
}

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, change store.Change) (revisions []store.Revision, err error) {
	if err := change.Check(); err != nil || len(change.Writes) == 0 {
		return nil, err
	}
	err = s.change(ctx, func(ctx context.Context, tx pgx.Tx, h head) (*pgx.Batch, error) {
		if change.Of != (store.Identity{}) && change.Of != h.identity {
			return nil, store.ErrReplaced
		}
		p, err := planned(ctx, tx, change, h.revision)
		if err != nil {
			return nil, err
		}
		revisions = p.revisions
		return p.batch(change, h), nil
	})
	if err != nil {
		return nil, err
	}
	return revisions, nil
}

// Purge implements store.Store.
func (s *Store) Purge(ctx context.Context, now time.Time) (removed int, err error) {
	expired := 0
	err = s.do(ctx, operationLimit, func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, "SELECT count(*) FROM teleport_find.resources WHERE expires <= $1", now.Unix()).Scan(&expired)
	})
	if err != nil || expired == 0 {
		return 0, err // a purge that changes nothing writes nothing
	}
	err = s.change(ctx, func(ctx context.Context, tx pgx.Tx, h head) (*pgx.Batch, error) {
		tag, err := tx.Exec(ctx, `WITH gone AS (DELETE FROM teleport_find.resources WHERE expires <= $1 RETURNING key)
			INSERT INTO teleport_find.removed SELECT key, $2 + row_number() OVER () FROM gone
			ON CONFLICT (key) DO UPDATE SET revision = EXCLUDED.revision`, now.Unix(), int64(h.revision))
		if err != nil {
			return nil, err
		}
		removed = int(tag.RowsAffected())
		b := &pgx.Batch{}
		forgetRemoved(b)
		advance(b, h.revision+store.Revision(removed), time.Time{})
		return b, nil
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

// Identity implements store.Store.
func (s *Store) Identity(ctx context.Context) (id store.Identity, err error) {
	err = s.do(ctx, operationLimit, func(ctx context.Context, c *pgxpool.Conn) error {
		var is incarnation
		err := c.QueryRow(ctx, "SELECT id, "+incarnationNow+" FROM teleport_find.head").Scan(append([]any{&id.ID}, is.columns()...)...)
		id.Epoch = is.epoch()
		return err
	})
	return id, err
}

// Now implements store.Store.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = s.do(ctx, operationLimit, func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now)
	})
	return now, err
}

// History implements store.Store.
func (s *Store) History(ctx context.Context, limit int) (records []store.HistoryEntry, err error) {
	err = s.do(ctx, operationLimit, func(ctx context.Context, c *pgxpool.Conn) error {
		records, err = history(ctx, c, limit)
		return err
	})
	return records, err
}
