package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"teleport-update/find/store"
)

var _ store.Movable = (*Store)(nil)

// Export implements store.Movable. It is not repeated after a call of f.
func (s *Store) Export(ctx context.Context, f func(store.Archive) error) error {
	return s.do(ctx, scanLimit, func(ctx context.Context, c *pgxpool.Conn) error {
		return moment(ctx, c, func(tx pgx.Tx) error {
			// The transaction may be idle for as long as the other store takes.
			if _, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
				return err
			}
			a, err := archiveOf(ctx, tx)
			if err != nil {
				return err
			}
			if err := f(a); err != nil {
				return &finalError{err}
			}
			return nil
		})
	})
}

func archiveOf(ctx context.Context, tx pgx.Tx) (a store.Archive, err error) {
	if err = tx.QueryRow(ctx, "SELECT id, revision FROM teleport_find.head").Scan(&a.ID, &a.Revision); err != nil {
		return a, err
	}
	a.History, err = history(ctx, tx, store.MaxHistory)
	a.Each = func(f func(store.Archived) error) error {
		return pages(ctx, tx, "", func(item archived) (bool, error) {
			out := store.Archived{Item: item.Item}
			if item.expires != nil {
				out.Expires = time.Unix(*item.expires, 0)
			}
			err := f(out)
			return err == nil, err
		})
	}
	return a, err
}

// Import implements store.Movable. It is tried once: the archive can be read only once.
func (s *Store) Import(ctx context.Context, a store.Archive) error {
	return s.changeWithin(ctx, scanLimit, func(ctx context.Context, tx pgx.Tx, h head) (*pgx.Batch, error) {
		var items int
		if err := tx.QueryRow(ctx, "SELECT count(*) FROM teleport_find.resources").Scan(&items); err != nil {
			return nil, err
		}
		if items > 0 || h.revision != store.None {
			return nil, store.ErrNotEmpty
		}
		if _, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
			return nil, err
		}
		if err := insert(ctx, tx, a); err != nil {
			return nil, &finalError{err}
		}
		b := &pgx.Batch{}
		for i, r := range a.History {
			number := -int64(i) // numbers of changes grow from one
			add(b, r.Audit, records{numbers: []int64{number}, keys: []string{r.Key}, from: []int64{int64(r.From)}, to: []int64{int64(r.To)}})
		}
		next := a.Revision + store.EpochStep
		b.Queue("UPDATE teleport_find.head SET id = $1, forgotten = $2", a.ID, int64(next))
		advance(b, next, time.Time{})
		return b, nil
	})
}

// insert writes the items of an archive.
func insert(ctx context.Context, tx pgx.Tx, a store.Archive) error {
	p := &plan{}
	flush := func() error {
		_, err := tx.Exec(ctx, "INSERT INTO teleport_find.resources (key, value, revision, expires) SELECT * FROM "+
			"unnest($1::text[], $2::bytea[], $3::bigint[], $4::bigint[])",
			p.keys, p.values, p.at, p.expires)
		p = &plan{}
		return err
	}
	err := a.Each(func(item store.Archived) error {
		var expires *int64
		if !item.Expires.IsZero() {
			seconds := item.Expires.Unix()
			expires = &seconds
		}
		p.keys, p.values = append(p.keys, item.Key), append(p.values, item.Value)
		p.at, p.expires = append(p.at, int64(item.Revision)), append(p.expires, expires)
		if len(p.keys) < pageSize {
			return nil
		}
		return flush()
	})
	if err != nil || len(p.keys) == 0 {
		return err
	}
	return flush()
}
