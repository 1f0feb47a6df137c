package faults

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"
)

// Migrate does to the agent's database what the agent of a version does when it
// starts: it makes the schema its own and writes rows. schema is its number.
func (w *World) Migrate(v string, schema int) error {
	path := w.Database()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	c, err := sqlite3.Open("file:" + path)
	if err != nil {
		return err
	}
	err = c.Exec(fmt.Sprintf(`
		PRAGMA journal_mode=wal;
		BEGIN;
		CREATE TABLE IF NOT EXISTS owner (version TEXT NOT NULL);
		DELETE FROM owner;
		INSERT INTO owner VALUES ('%s');
		CREATE TABLE schema%d (id INTEGER PRIMARY KEY, what BLOB);
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) INSERT INTO schema%d SELECT i, randomblob(400) FROM n;
		PRAGMA user_version=%d;
		COMMIT;`, v, schema, schema, schema))
	return errors.Join(err, c.Close())
}

// databaseAt says which version's a database is; "none" where there is none. It
// looks at a copy, for to look is to recover what a crash has left.
func databaseAt(path string) (string, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return "none", nil
	}
	dir, err := os.MkdirTemp("", "database-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	for _, suffix := range []string{"", "-wal", "-journal"} {
		err := copyFile(path+suffix, filepath.Join(dir, "copy"+suffix), 0o600)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return owner(filepath.Join(dir, "copy"))
}

func owner(path string) (string, error) {
	c, err := sqlite3.Open("file:" + path)
	if err != nil {
		return "", err
	}
	defer c.Close()
	check, err := value(c, "PRAGMA integrity_check")
	if err != nil {
		return "damaged: " + err.Error(), nil
	}
	if check != "ok" {
		return "damaged: " + check, nil
	}
	version, err := value(c, "SELECT group_concat(version) || ' with schema ' FROM owner")
	if err != nil {
		return "damaged: " + err.Error(), nil
	}
	schema, err := value(c, "PRAGMA user_version")
	if err != nil {
		return "damaged: " + err.Error(), nil
	}
	rows, err := value(c, "SELECT count(*) || ' rows' FROM schema"+schema)
	if err != nil {
		return "damaged: " + err.Error(), nil
	}
	return version + schema + ", " + rows, nil
}

func value(c *sqlite3.Conn, query string) (string, error) {
	s, _, err := c.Prepare(query)
	if err != nil {
		return "", err
	}
	defer s.Close()
	if !s.Step() {
		return "", errors.Join(s.Err(), errors.New("no row"))
	}
	return s.ColumnText(0), s.Err()
}
