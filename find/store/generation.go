package store

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"

	"github.com/ncruces/go-sqlite3"
)

// errOverwritten says that the file and the -wal beside it do not belong together. SQLite would mix their pages.
var errOverwritten = errors.New("another file was copied over it while a server had it open, or before the server's log was in it, and " +
	"the -wal beside it is not the copy's: nothing more is written; stop the servers, remove the -wal and -shm, move the copy " +
	"to another name, and put it back with \"teleport-find restore FILE\"")

// generations tell a copy of the file from the file itself. The row of head counts them: each change has the next one, and so has each
// process that opens the file. Since each change writes that row, the log always holds it.
type generations struct {
	settled int64 // the file had this generation, without its log, on stable storage
	newest  int64 // of the file and its log
}

// read reads both from the file and its log.
func (g *generations) read(c *sqlite3.Conn) error {
	return query(c, "SELECT settled, generation FROM head", nil, func(stmt *sqlite3.Stmt) bool {
		g.settled, g.newest = stmt.ColumnInt64(0), stmt.ColumnInt64(1)
		return false
	})
}

// sealed makes the row of head tell whether it is whole. A power cut in a checkpoint can leave parts of two of its versions in the page.
const sealed = "generation * 1000003 + 1"

// next counts a generation in an UPDATE of head.
const next = "generation = generation + 1, seal = (generation + 1) * 1000003 + 1"

// errTorn says that the row of head is not whole in the file alone. The log has it.
var errTorn = errors.New("the page of the generation is not whole without the log")

// generationAlone returns the generation of the file without its log. An error says nothing about the file: a checkpoint may be under way,
// or was cut off.
func generationAlone(path, vfs string) (alone int64, err error) {
	address := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"vfs": {vfs}, "immutable": {"1"}}.Encode()}
	c, err := sqlite3.OpenFlags(address.String(), sqlite3.OPEN_READONLY|sqlite3.OPEN_URI|sqlite3.OPEN_NOFOLLOW)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	whole := false
	err = query(c, "SELECT generation FROM head WHERE seal = "+sealed, nil, func(stmt *sqlite3.Stmt) bool {
		alone, whole = stmt.ColumnInt64(0), true
		return false
	})
	if err == nil && !whole {
		err = errTorn
	}
	return alone, err
}

// checkLog returns errOverwritten if the log beside the file is of another file. It runs before anything is written.
func checkLog(c *sqlite3.Conn, path, vfs string) error {
	log, err := os.Stat(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) || err == nil && log.Size() == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	var before, after generations
	if err := before.read(c); err != nil {
		return nil // a new file, of which the log has all; check finds the others
	}
	alone, err := generationAlone(path, vfs)
	if err != nil {
		return nil
	}
	// Another process may be writing: settled is read first, and the newest last.
	if err := after.read(c); err != nil {
		return err
	}
	if alone < before.settled || alone > after.newest {
		return errOverwritten
	}
	return nil
}

// begin counts a generation, so that a copy from before is older, and settles it.
func begin(c *sqlite3.Conn) error {
	err := c.Exec("UPDATE head SET " + next)
	if errors.Is(err, sqlite3.FULL) || errors.Is(err, sqlite3.BUSY) {
		return nil // the next change counts one
	}
	if err != nil {
		return err
	}
	return settle(c)
}

// settle writes the log into the file, and records the generation that the file has after that at least. If another process prevents it,
// the earlier record counts.
func settle(c *sqlite3.Conn) error {
	var g generations
	if err := g.read(c); err != nil || g.newest == g.settled {
		return err
	}
	pages, written, err := c.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE)
	if err == nil && pages == written {
		err = execute(c, "UPDATE head SET settled = max(settled, ?1)", func(stmt *sqlite3.Stmt) error { return stmt.BindInt64(1, g.newest) })
	}
	if errors.Is(err, sqlite3.FULL) || errors.Is(err, sqlite3.BUSY) {
		return nil
	}
	return err
}

// ours returns errOverwritten once another file was copied over the open one. It looks whenever the file has changed, which checkpoints do
// as well.
func (s *SQLite) ours(ctx context.Context, info os.FileInfo) error {
	if s.overwritten || s.looked != nil && s.looked.ModTime().Equal(info.ModTime()) && s.looked.Size() == info.Size() {
		return s.belongs()
	}
	alone, err := generationAlone(s.path, s.vfs)
	if err != nil {
		return nil // the next operation looks again
	}
	var now generations
	s.conn.SetInterrupt(ctx)
	defer s.conn.SetInterrupt(context.Background())
	if err := now.read(s.conn); err != nil {
		return nil // the operation has the same error
	}
	s.overwritten = alone < s.alone || alone > now.newest
	s.alone, s.looked = max(alone, s.alone), info
	return s.belongs()
}

func (s *SQLite) belongs() error {
	if s.overwritten {
		return errOverwritten
	}
	return nil
}
