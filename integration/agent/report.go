package main

import (
	"fmt"

	"github.com/ncruces/go-sqlite3"
)

// databaseReport is what tests want to know of the agent's database. Row ids
// are never used twice, so a committed row that went missing shows: Rows is
// less than Last.
type databaseReport struct {
	Schema      int64            `json:"schema"`
	JournalMode string           `json:"journal_mode"`
	Integrity   string           `json:"integrity"` // "ok", or SQLite's first complaint
	Rows        int64            `json:"rows"`
	Last        int64            `json:"last"` // the newest id ever given
	ByVersion   map[string]int64 `json:"by_version"`
	Migrations  []migration      `json:"migrations"`
}

type migration struct {
	Schema  int64  `json:"schema"`
	Version string `json:"version"`
}

// readReport reads the database in dataDir. It opens it read-only; beside a
// database in WAL mode SQLite may still leave -wal and -shm files.
func readReport(dataDir string) (databaseReport, error) {
	path := databasePath(dataDir)
	db, err := sqlite3.OpenFlags(path, sqlite3.OPEN_READONLY)
	if err != nil {
		return databaseReport{}, fmt.Errorf("open %s: %w", path, err)
	}
	defer db.Close()
	r := databaseReport{ByVersion: map[string]int64{}}
	for _, q := range []struct {
		sql  string
		take func(*sqlite3.Stmt)
	}{
		{"PRAGMA busy_timeout=10000", func(*sqlite3.Stmt) {}},
		// One read transaction: the answers belong together.
		{"BEGIN", func(*sqlite3.Stmt) {}},
		{"PRAGMA user_version", func(s *sqlite3.Stmt) { r.Schema = s.ColumnInt64(0) }},
		{"PRAGMA journal_mode", func(s *sqlite3.Stmt) { r.JournalMode = s.ColumnText(0) }},
		{"PRAGMA integrity_check(1)", func(s *sqlite3.Stmt) { r.Integrity = s.ColumnText(0) }},
		{"SELECT count(*) FROM rows", func(s *sqlite3.Stmt) { r.Rows = s.ColumnInt64(0) }},
		{"SELECT seq FROM sqlite_sequence WHERE name = 'rows'", func(s *sqlite3.Stmt) { r.Last = s.ColumnInt64(0) }},
		{"SELECT version, count(*) FROM rows GROUP BY version", func(s *sqlite3.Stmt) { r.ByVersion[s.ColumnText(0)] = s.ColumnInt64(1) }},
		{"SELECT schema, version FROM migrations ORDER BY schema", func(s *sqlite3.Stmt) {
			r.Migrations = append(r.Migrations, migration{s.ColumnInt64(0), s.ColumnText(1)})
		}},
		{"COMMIT", func(*sqlite3.Stmt) {}},
	} {
		if err := eachRow(db, q.sql, q.take); err != nil {
			return r, fmt.Errorf("read %s: %s: %w", path, q.sql, err)
		}
	}
	return r, nil
}

func eachRow(db *sqlite3.Conn, sql string, take func(*sqlite3.Stmt)) error {
	stmt, _, err := db.Prepare(sql)
	if err != nil {
		return err
	}
	defer stmt.Close()
	for stmt.Step() {
		take(stmt)
	}
	return stmt.Err()
}
