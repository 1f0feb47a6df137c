package store

import (
	"context"
	"errors"
	"time"

	"github.com/ncruces/go-sqlite3"
)

var _ Movable = (*SQLite)(nil)

// Export implements Movable.
func (s *SQLite) Export(ctx context.Context, f func(Archive) error) error {
	return s.do(ctx, func(c *sqlite3.Conn) (err error) {
		tx := c.Begin()
		defer tx.End(&err)
		a := Archive{Each: func(f func(Archived) error) error { return each(c, f) }}
		if a.Revision, err = revision(c); err != nil {
			return err
		}
		if a.History, err = history(c, MaxHistory); err != nil {
			return err
		}
		err = query(c, "SELECT id FROM identity", nil, func(stmt *sqlite3.Stmt) bool { a.ID = stmt.ColumnText(0); return false })
		if err != nil {
			return err
		}
		return f(a)
	})
}

func each(c *sqlite3.Conn, f func(Archived) error) error {
	var stopped error
	err := query(c, "SELECT key, value, revision, expires FROM resources ORDER BY key", nil, func(stmt *sqlite3.Stmt) bool {
		item := Archived{Item: itemOf(stmt)}
		if stmt.ColumnType(3) != sqlite3.NULL {
			item.Expires = time.Unix(stmt.ColumnInt64(3), 0)
		}
		stopped = f(item)
		return stopped == nil
	})
	return errors.Join(stopped, err)
}

// Import implements Movable.
func (s *SQLite) Import(ctx context.Context, a Archive) error {
	return s.change(ctx, func(c *sqlite3.Conn, now Revision) (Revision, error) {
		items, err := number(c, "SELECT count(*) FROM resources")
		if err != nil {
			return now, err
		}
		if now != None || items > 0 {
			return now, ErrNotEmpty
		}
		err = a.Each(func(item Archived) error {
			return set(c, Write{Key: item.Key, Value: item.Value, Expires: item.Expires}, item.Revision)
		})
		for i := len(a.History); i > 0 && err == nil; i-- {
			err = record(c, a.History[i-1])
		}
		if err != nil {
			return now, err
		}
		next := a.Revision + EpochStep
		identity := execute(c, "UPDATE identity SET id = ?1", func(stmt *sqlite3.Stmt) error { return stmt.BindText(1, a.ID) })
		forgotten := execute(c, "INSERT OR REPLACE INTO removed VALUES ('', ?1)", func(stmt *sqlite3.Stmt) error {
			return stmt.BindInt64(1,
				int64(next))
		})
		return next, errors.Join(identity, forgotten)
	})
}
