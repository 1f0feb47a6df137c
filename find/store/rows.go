package store

import (
	"errors"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
)

func set(c *sqlite3.Conn, w Write, now Revision) error {
	return execute(c, "INSERT INTO resources (key, value, revision, expires) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (key) DO "+
		"UPDATE SET value = ?2, revision = ?3, expires = ?4",
		func(stmt *sqlite3.Stmt) error {
			err := errors.Join(stmt.BindText(1, w.Key), stmt.BindBlob(2, w.Value), stmt.BindInt64(3, int64(now)))
			if !w.Expires.IsZero() {
				err = errors.Join(err, stmt.BindInt64(4, w.Expires.Unix()))
			}
			return err
		})
}

func remove(c *sqlite3.Conn, key string) error {
	return execute(c, "DELETE FROM resources WHERE key = ?1", func(stmt *sqlite3.Stmt) error { return stmt.BindText(1, key) })
}

func record(c *sqlite3.Conn, r HistoryEntry) error {
	return execute(c, "INSERT INTO history (time, who, what, why, key, from_revision, to_revision) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
		func(stmt *sqlite3.Stmt) error {
			return errors.Join(stmt.BindText(1, r.Time.UTC().Format(time.RFC3339Nano)), stmt.BindText(2, r.Who), stmt.BindText(3, r.What),
				stmt.BindText(4, r.Why), stmt.BindText(5, r.Key), stmt.BindInt64(6, int64(r.From)), stmt.BindInt64(7, int64(r.To)))
		})
}

// forget removes the oldest records if there are too many.
func forget(c *sqlite3.Conn) error {
	return execute(c, "DELETE FROM history WHERE number <= (SELECT max(number) FROM history) - ?1",
		func(stmt *sqlite3.Stmt) error { return stmt.BindInt64(1, MaxHistory) })
}

// history returns the newest records, the newest first; at most limit.
func history(c *sqlite3.Conn, limit int) (records []HistoryEntry, err error) {
	err = query(c, "SELECT time, who, what, why, key, from_revision, to_revision FROM history ORDER BY number DESC LIMIT ?1",
		func(stmt *sqlite3.Stmt) error { return stmt.BindInt64(1, int64(limit)) },
		func(stmt *sqlite3.Stmt) bool {
			at, _ := time.Parse(time.RFC3339Nano, stmt.ColumnText(0)) // in the format of record
			records = append(records, HistoryEntry{
				Audit{at, stmt.ColumnText(1), stmt.ColumnText(2), stmt.ColumnText(3)},
				stmt.ColumnText(4), Revision(stmt.ColumnInt64(5)), Revision(stmt.ColumnInt64(6)),
			})
			return true
		})
	return records, err
}

func get(c *sqlite3.Conn, key string) (Item, error) {
	item := Item{Key: key}
	err := query(c, "SELECT value, revision FROM resources WHERE key = ?1", func(stmt *sqlite3.Stmt) error {
		return stmt.BindText(1, key)
	}, func(stmt *sqlite3.Stmt) bool {
		item.Value, item.Revision = stmt.ColumnBlob(0, []byte{}), Revision(stmt.ColumnInt64(1))
		return false
	})
	if err == nil && item.Revision == None {
		err = ErrNotFound
	}
	if err != nil {
		return Item{}, err
	}
	return item, nil
}

func scan(c *sqlite3.Conn, prefix string, f func(Item) bool) error {
	return query(c, "SELECT key, value, revision FROM resources WHERE key >= ?1 ORDER BY key", func(stmt *sqlite3.Stmt) error {
		return stmt.BindText(1, prefix)
	}, func(stmt *sqlite3.Stmt) bool {
		item := itemOf(stmt)
		return strings.HasPrefix(item.Key, prefix) && f(item)
	})
}

// itemOf reads key, value and revision.
func itemOf(stmt *sqlite3.Stmt) Item {
	return Item{Key: stmt.ColumnText(0), Value: stmt.ColumnBlob(1, []byte{}), Revision: Revision(stmt.ColumnInt64(2))}
}

func revision(c *sqlite3.Conn) (at Revision, err error) {
	found := false
	err = query(c, "SELECT revision FROM head", nil, func(stmt *sqlite3.Stmt) bool {
		at, found = Revision(stmt.ColumnInt64(0)), true
		return false
	})
	if err == nil && !found {
		err = errors.New("it has lost its revision")
	}
	return at, err
}

// query calls row for each row until that returns false.
func query(c *sqlite3.Conn, sql string, bind func(*sqlite3.Stmt) error, row func(*sqlite3.Stmt) bool) error {
	stmt, _, err := c.Prepare(sql)
	if err != nil {
		return err
	}
	defer stmt.Close()
	if bind != nil {
		if err := bind(stmt); err != nil {
			return err
		}
	}
	for stmt.Step() {
		if !row(stmt) {
			return nil
		}
	}
	return stmt.Err()
}

func execute(c *sqlite3.Conn, sql string, bind func(*sqlite3.Stmt) error) error {
	return query(c, sql, bind, func(*sqlite3.Stmt) bool { return true })
}
