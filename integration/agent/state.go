package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/integration/agent/stamp"
)

// state is the agent's database, proc/sqlite.db in its data directory. Its
// connection belongs to one goroutine at a time: to the opener until write is
// called, then to write until that returns.
type state struct {
	db      *sqlite3.Conn
	version string
	schema  int

	lastRow atomic.Int64 // id of the last row committed by this process
	failed  atomic.Int64 // commits that failed
}

// openState writes host_uuid where there is none, opens the database and
// migrates it to the release's schema. A newer schema is refused.
func openState(dataDir string, self stamp.Stamp, journalMode string) (*state, error) {
	if err := os.MkdirAll(filepath.Join(dataDir, "proc"), 0o700); err != nil {
		return nil, err
	}
	if err := writeHostUUID(filepath.Join(dataDir, "host_uuid")); err != nil {
		return nil, err
	}
	path := databasePath(dataDir)
	db, err := sqlite3.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	s := &state{db: db, version: self.Version, schema: self.Schema}
	if err := s.prepare(journalMode); err != nil {
		db.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func databasePath(dataDir string) string { return filepath.Join(dataDir, "proc", "sqlite.db") }

func writeHostUUID(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b := make([]byte, 16)
	rand.Read(b)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	id := fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	return os.WriteFile(path, []byte(id), 0o600)
}

func (s *state) prepare(journalMode string) error {
	// The old process writes on while the new one migrates.
	if err := s.db.BusyTimeout(10 * time.Second); err != nil {
		return err
	}
	// FULL: a row that was reported as committed is on stable storage.
	if err := s.db.Exec("PRAGMA journal_mode=" + journalMode + "; PRAGMA synchronous=FULL"); err != nil {
		return err
	}
	return s.migrate()
}

// migrate brings the database from whatever schema it has to the release's, in
// one transaction. Schema n adds a table and a column, as migrations do.
func (s *state) migrate() (err error) {
	txn, err := s.db.BeginImmediate()
	if err != nil {
		return err
	}
	defer txn.End(&err)
	var found int
	if err := eachRow(s.db, "PRAGMA user_version", func(row *sqlite3.Stmt) { found = row.ColumnInt(0) }); err != nil {
		return err
	}
	if found > s.schema {
		return fmt.Errorf("the database has schema %d, this is version %s and knows schema %d at most: it was migrated by a newer version",
			found, s.version, s.schema)
	}
	if found == s.schema {
		return nil
	}
	var b strings.Builder
	for n := found + 1; n <= s.schema; n++ {
		if n == 1 {
			b.WriteString(`CREATE TABLE rows (id INTEGER PRIMARY KEY AUTOINCREMENT, version TEXT NOT NULL, pid INTEGER NOT NULL, time TEXT NOT NULL);
				CREATE TABLE migrations (schema INTEGER PRIMARY KEY, version TEXT NOT NULL, time TEXT NOT NULL);`)
		} else {
			fmt.Fprintf(&b, "CREATE TABLE schema_%d (id INTEGER PRIMARY KEY); ALTER TABLE rows ADD COLUMN schema_%d TEXT;", n, n)
		}
		fmt.Fprintf(&b, "INSERT INTO migrations VALUES (%d, %s, %s);", n, sqlite3.Quote(s.version), sqlite3.Quote(now()))
	}
	fmt.Fprintf(&b, "PRAGMA user_version=%d;", s.schema)
	if err := s.db.Exec(b.String()); err != nil {
		return err
	}
	slog.Info("Migrated the database.", "from", found, "to", s.schema)
	return nil
}

// write adds rows at the given rate until ctx ends. A failed commit is logged
// and counted, not fatal: the real agent carries on too.
func (s *state) write(ctx context.Context, perSecond int) {
	if perSecond == 0 {
		<-ctx.Done()
		return
	}
	commits := min(perSecond, 100)
	ticker := time.NewTicker(time.Second / time.Duration(commits))
	defer ticker.Stop()
	written, begun := 0, time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		due := int(time.Since(begun).Seconds()*float64(perSecond)) - written
		if perSecond <= 100 {
			due = min(due, 1)
		}
		if due < 1 {
			continue
		}
		written += due
		if err := s.insert(due); err != nil {
			s.failed.Add(1)
			slog.Error("Cannot write to the database.", "error", err)
		}
	}
}

func (s *state) insert(rows int) (err error) {
	var id int64
	txn, err := s.db.BeginImmediate()
	if err != nil {
		return err
	}
	defer func() {
		if txn.End(&err); err == nil {
			s.lastRow.Store(id)
		}
	}()
	one := fmt.Sprintf("(%s, %d, %s)", sqlite3.Quote(s.version), os.Getpid(), sqlite3.Quote(now()))
	if err := s.db.Exec("INSERT INTO rows (version, pid, time) VALUES " + one + strings.Repeat(","+one, rows-1)); err != nil {
		return err
	}
	id = s.db.LastInsertRowID()
	return nil
}

func (s *state) close() error { return s.db.Close() }

func now() string { return time.Now().UTC().Format(time.RFC3339Nano) }
