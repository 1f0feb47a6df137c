package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/ncruces/go-sqlite3"
)

// SQLite is a Store in one file, which several processes of one user and one
// machine may have open at once.
//
// The file is written through a write-ahead log with synchronous=FULL: a change
// is synced before it is acknowledged. The log (-wal) and its index (-shm) lie
// beside the file while a process has it open, or after a kill until a process opens
// it again; they belong to it. "sqlite3 FILE .backup COPY" copies it at any time.
type SQLite struct {
	path string
	vfs  string

	mu     sync.Mutex
	conn   *sqlite3.Conn // nil if the file could not be opened again
	epoch  int64         // how many files have been open before this one
	file   os.FileInfo   // the file that conn has open
	looked os.FileInfo   // the file when alone was read; nil before that
	alone  int64         // the newest generation that the file had without its log
	whole  *later        // the check of a large file; nil for none
	closed bool
	// overwritten: another file was copied over the open one.
	overwritten bool
}

var _ Store = (*SQLite)(nil)

// Close closes the file. The Store must not be used after it.
func (s *SQLite) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.whole.end()
	if s.conn == nil {
		return nil
	}
	if info, err := os.Lstat(s.path); err == nil && s.ours(context.Background(), info) != nil {
		// Else the log would be written into the copy.
		if _, err := s.conn.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true); err != nil {
			return err
		}
	}
	err := s.conn.Close()
	s.conn = nil
	return err
}

// Get implements Store.
func (s *SQLite) Get(ctx context.Context, key string) (item Item, err error) {
	if err := CheckKey(key); err != nil {
		return Item{}, err
	}
	err = s.do(ctx, func(c *sqlite3.Conn) error {
		item, err = get(c, key)
		return err
	})
	return item, err
}

// List implements Store.
func (s *SQLite) List(ctx context.Context, prefix string) (items []Item, at Revision, err error) {
	at, err = s.Scan(ctx, prefix, func(item Item) bool {
		items = append(items, item)
		return true
	})
	if err != nil {
		return nil, None, err
	}
	return items, at, nil
}

// Scan implements Store.
func (s *SQLite) Scan(ctx context.Context, prefix string, f func(Item) bool) (at Revision, err error) {
	err = s.do(ctx, func(c *sqlite3.Conn) (err error) {
		tx := c.Begin()
		defer tx.End(&err)
		if at, err = revision(c); err != nil {
			return err
		}
		return scan(c, prefix, f)
	})
	if err != nil {
		return None, err
	}
	return at, nil
}

// Changes implements Store.
func (s *SQLite) Changes(ctx context.Context, prefix string, since Revision, limit int) (items []Item, upTo Revision, err error) {
	err = s.do(ctx, func(c *sqlite3.Conn) (err error) {
		items = nil
		tx := c.Begin()
		defer tx.End(&err)
		if upTo, err = revision(c); err != nil || upTo == since {
			return err
		}
		// The plus makes SQLite use the index of the revisions: there are few new ones.
		err = query(c, "SELECT key, value, revision FROM resources WHERE revision > ?1 AND +substr(key, 1, ?2) = ?3 ORDER BY revision LIMIT ?4",
			func(stmt *sqlite3.Stmt) error {
				return errors.Join(stmt.BindInt64(1, int64(since)), stmt.BindInt(2, utf8.RuneCountInString(prefix)), stmt.BindText(3, prefix),
					stmt.BindInt(4, limit))
			},
			func(stmt *sqlite3.Stmt) bool {
				items = append(items, itemOf(stmt))
				return true
			})
		if n := len(items); n > 0 && n == limit {
			upTo = items[n-1].Revision
		}
		if err != nil {
			return err
		}
		gone, err := removedSince(c, prefix, since, upTo)
		items = append(items, gone...)
		return err
	})
	if err != nil {
		return nil, None, err
	}
	return items, upTo, nil
}

// Identity implements Store.
func (s *SQLite) Identity(ctx context.Context) (id Identity, err error) {
	err = s.do(ctx, func(c *sqlite3.Conn) error {
		id, err = s.identity(c)
		return err
	})
	return id, err
}

func (s *SQLite) identity(c *sqlite3.Conn) (id Identity, err error) {
	id.Epoch = s.epoch
	err = query(c, "SELECT id FROM identity", nil, func(stmt *sqlite3.Stmt) bool { id.ID = stmt.ColumnText(0); return false })
	return id, err
}

// isOf returns ErrReplaced if the store has another identity than meant.
func (s *SQLite) isOf(c *sqlite3.Conn, meant Identity) error {
	if meant == (Identity{}) {
		return nil
	}
	is, err := s.identity(c)
	if err == nil && is != meant {
		err = ErrReplaced
	}
	return err
}

// Now implements Store. All processes that have the file open are on one machine: its clock is the store's.
func (s *SQLite) Now(context.Context) (time.Time, error) { return time.Now(), nil }

// Put implements Store.
func (s *SQLite) Put(ctx context.Context, key string, value []byte, based Revision) (Revision, error) {
	revisions, err := s.Commit(ctx, Change{Writes: []Write{{Key: key, Value: value, Based: based}}})
	if err != nil {
		return None, err
	}
	return revisions[0], nil
}

// Commit implements Store.
func (s *SQLite) Commit(ctx context.Context, change Change) (revisions []Revision, err error) {
	if err := change.Check(); err != nil || len(change.Writes) == 0 {
		return nil, err
	}
	err = s.change(ctx, func(c *sqlite3.Conn, now Revision) (Revision, error) {
		revisions = nil
		if err := s.isOf(c, change.Of); err != nil {
			return now, err
		}
		for _, w := range change.Writes {
			if err := expect(c, w.Key, w.Based); err != nil {
				return now, err
			}
			after := w.Based
			switch w.Do {
			case Set:
				now++
				after = now
				err = set(c, w, now)
			case Remove:
				now++
				after = None
				err = remove(c, w.Key)
			}
			if err == nil && change.Records(w) {
				err = record(c, HistoryEntry{change.Audit, w.Key, w.Based, after})
			}
			if err != nil {
				return now, err
			}
			revisions = append(revisions, after)
		}
		if change.Audit.Who != "" {
			err = forget(c)
		}
		// Last: a process may have been paused anywhere before.
		if err == nil && !change.Deadline.IsZero() && time.Now().After(change.Deadline) {
			err = ErrLate
		}
		return now, err
	})
	if err != nil {
		return nil, err
	}
	return revisions, nil
}

// Delete implements Store.
func (s *SQLite) Delete(ctx context.Context, key string, based Revision) error {
	_, err := s.Commit(ctx, Change{Writes: []Write{{Key: key, Based: based, Do: Remove}}})
	return err
}

// Purge implements Store.
func (s *SQLite) Purge(ctx context.Context, now time.Time) (removed int, err error) {
	expired := int64(0)
	s.keepReserve() // there may be room again
	err = s.do(ctx, func(c *sqlite3.Conn) error {
		if err := settle(c); err != nil {
			return err
		}
		return query(c, "SELECT count(*) FROM resources WHERE expires <= ?1", func(stmt *sqlite3.Stmt) error {
			return stmt.BindInt64(1,
				now.Unix())
		},
			func(stmt *sqlite3.Stmt) bool { expired = stmt.ColumnInt64(0); return false })
	})
	if err != nil || expired == 0 {
		return 0, err // a purge that changes nothing writes nothing
	}
	err = s.change(ctx, func(c *sqlite3.Conn, at Revision) (Revision, error) {
		err := execute(c, "DELETE FROM resources WHERE expires <= ?1", func(stmt *sqlite3.Stmt) error { return stmt.BindInt64(1, now.Unix()) })
		removed = int(c.Changes())
		if err == nil {
			err = forgetRemoved(c)
		}
		return at + Revision(removed), err
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

// History implements Store.
func (s *SQLite) History(ctx context.Context, limit int) (records []HistoryEntry, err error) {
	err = s.do(ctx, func(c *sqlite3.Conn) error {
		records, err = history(c, limit)
		return err
	})
	return records, err
}

// change makes changes, and the store's new revision, in one transaction. It gives up the reserve for the first one that
// finds the disk full.
func (s *SQLite) change(ctx context.Context, apply func(c *sqlite3.Conn, now Revision) (next Revision, err error)) error {
	err := s.changeOnce(ctx, apply)
	if errors.Is(err, sqlite3.FULL) && s.giveUpReserve() {
		err = s.changeOnce(ctx, apply)
	}
	return err
}

// changeOnce locks all other writers out from its start.
func (s *SQLite) changeOnce(ctx context.Context, apply func(c *sqlite3.Conn, now Revision) (next Revision, err error)) error {
	return s.do(ctx, func(c *sqlite3.Conn) (err error) {
		tx, err := c.BeginImmediate()
		if err != nil {
			return err
		}
		defer tx.End(&err)
		now, err := revision(c)
		if err != nil {
			return err
		}
		if now, err = apply(c, now); err != nil {
			return err
		}
		return execute(c, "UPDATE head SET revision = ?1, "+next, func(stmt *sqlite3.Stmt) error {
			return stmt.BindInt64(1, int64(now))
		})
	})
}

// expect returns a *ConflictError if the item has another revision.
func expect(c *sqlite3.Conn, key string, based Revision) error {
	found, err := get(c, key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if found.Revision != based {
		return &ConflictError{Key: key, Based: based, Found: found.Revision}
	}
	return nil
}

// do runs one operation on the file that is at the path now. SQLite itself would continue to write
// to a removed or replaced file, which nobody will ever read again.
func (s *SQLite) do(ctx context.Context, operation func(*sqlite3.Conn) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.current(ctx); err != nil {
		return err
	}
	if err := s.whole.found(); err != nil {
		return fmt.Errorf("the store %s: %w", s.path, err)
	}
	s.conn.SetInterrupt(ctx)
	defer s.conn.SetInterrupt(context.Background())
	err := operation(s.conn)
	if conflict, ok := errors.AsType[*ConflictError](err); ok {
		return conflict
	}
	for _, answer := range []error{nil, ErrNotFound, ErrTooOld, ErrLate, ErrReplaced, ErrNotEmpty} {
		if errors.Is(err, answer) {
			return err
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return fmt.Errorf("the store %s: %w", s.path, explain(err))
}

// current opens the file at the path if another file is open.
func (s *SQLite) current(ctx context.Context) error {
	if s.closed {
		return fmt.Errorf("the store %s: %w", s.path, fs.ErrClosed)
	}
	if s.path == inMemory {
		return nil
	}
	info, err := os.Lstat(s.path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("the file is gone: stop the server, remove the -wal and -shm beside it, and restore a copy or start with an empty one")
		}
		return fmt.Errorf("the store %s: %w", s.path, err)
	}
	if s.conn != nil && os.SameFile(info, s.file) {
		if err := s.ours(ctx, info); err != nil {
			return fmt.Errorf("the store %s: %w", s.path, err)
		}
		return nil
	}
	if s.conn != nil {
		// SQLite notices by itself that the file has gone, and leaves the files beside the new one
		// alone.
		s.conn.Close()
		s.conn = nil
	}
	s.looked, s.alone, s.overwritten = nil, 0, false
	s.epoch++
	if s.conn, s.file, err = open(ctx, s.path, s.vfs, false); err == nil {
		s.whole = s.whole.follow(s.file, s.path, s.vfs)
	}
	return err
}
