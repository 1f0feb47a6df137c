package store

import (
	"crypto/rand"
	"errors"
	"unicode/utf8"

	"github.com/ncruces/go-sqlite3"
)

// extraTables are tables that do not count as a new schema: its number stays. A program that does not know them can
// read and write the store, and the triggers see which items it removes.
//
// The table removed has the keys of removed items. The revision of a row is above the store's revision before the
// removal, and not above the revision after it. The row with the empty key, which no item has, says up to which
// revision rows have been forgotten.
const extraTables = `
CREATE TABLE IF NOT EXISTS identity (id TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS removed (
	key      TEXT    NOT NULL PRIMARY KEY,
	revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS removals ON removed (revision);
CREATE TRIGGER IF NOT EXISTS item_removed AFTER DELETE ON resources BEGIN
	INSERT OR REPLACE INTO removed VALUES (OLD.key, (SELECT revision FROM head) + 1);
END;
CREATE TRIGGER IF NOT EXISTS item_is_back AFTER INSERT ON resources BEGIN
	DELETE FROM removed WHERE key = NEW.key;
END;
`

// accompany creates extraTables if they are missing. Items that were removed before are unknown.
func accompany(c *sqlite3.Conn) error {
	there, err := number(c, "SELECT count(*) FROM sqlite_schema WHERE name IN ('identity', 'removed', 'removals', "+
		"'item_removed', 'item_is_back')")
	if err != nil || there == 5 {
		return err
	}
	if err := c.Exec(extraTables); err != nil {
		return err
	}
	err = execute(c, "INSERT INTO identity SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM identity)", func(stmt *sqlite3.Stmt) error {
		return stmt.BindText(1, rand.Text())
	})
	return errors.Join(err, execute(c, "INSERT OR REPLACE INTO removed SELECT '', revision FROM head", nil))
}

// removedSince returns the items that were removed between two revisions, or ErrTooOld.
func removedSince(c *sqlite3.Conn, prefix string, since, upTo Revision) (items []Item, err error) {
	forgotten, err := number(c, "SELECT revision FROM removed WHERE key = ''")
	if err != nil {
		return nil, err
	}
	if since < Revision(forgotten) {
		return nil, ErrTooOld
	}
	err = query(c, "SELECT key, revision FROM removed WHERE revision > ?1 AND revision <= ?2 AND key <> '' AND +substr(key, 1, "+
		"?3) = ?4 ORDER BY revision",
		func(stmt *sqlite3.Stmt) error {
			bounds := errors.Join(stmt.BindInt64(1, int64(since)), stmt.BindInt64(2, int64(upTo)))
			return errors.Join(bounds, stmt.BindInt(3, utf8.RuneCountInString(prefix)), stmt.BindText(4, prefix))
		},
		func(stmt *sqlite3.Stmt) bool {
			items = append(items, Item{Key: stmt.ColumnText(0), Revision: Revision(stmt.ColumnInt64(1)), Removed: true})
			return true
		})
	return items, err
}

// forgetRemoved forgets the oldest removals if there are too many.
func forgetRemoved(c *sqlite3.Conn) error {
	oldest := int64(0)
	err := query(c, "SELECT revision FROM removed WHERE key <> '' ORDER BY revision DESC LIMIT 1 OFFSET ?1",
		func(stmt *sqlite3.Stmt) error { return stmt.BindInt(1, MaxRemoved) },
		func(stmt *sqlite3.Stmt) bool { oldest = stmt.ColumnInt64(0); return false })
	if err != nil || oldest == 0 {
		return err
	}
	at := func(stmt *sqlite3.Stmt) error { return stmt.BindInt64(1, oldest) }
	err = execute(c, "DELETE FROM removed WHERE revision <= ?1 AND key <> ''", at)
	return errors.Join(err, execute(c, "INSERT OR REPLACE INTO removed VALUES ('', ?1)", at))
}
