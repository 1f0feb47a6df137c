package backup

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/internal/folder"
)

// maxProblems is how many findings of a check are reported.
const maxProblems = 5

// connect opens the database file at path, which must be absolute and free of
// links, or lead through an open folder. Work on it ends with INTERRUPT when ctx
// does.
func connect(ctx context.Context, path string, flags sqlite3.OpenFlag, query string) (*sqlite3.Conn, error) {
	c, err := sqlite3.OpenFlags(fileURI(path, query), flags|sqlite3.OPEN_URI|sqlite3.OPEN_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	c.SetInterrupt(ctx)
	if err := c.BusyTimeout(busyTimeout); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// connectLive opens a database that the agent may be writing, for reading only.
func connectLive(ctx context.Context, path string) (*sqlite3.Conn, error) {
	c, err := connect(ctx, path, sqlite3.OPEN_READONLY, "")
	if err != nil {
		return nil, err
	}
	// A read-only connection cannot checkpoint when it closes. Not trying is
	// still better: two processes that checkpoint at once have corrupted
	// databases (SQLite before 3.51.3).
	if _, err := c.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func fileURI(path, query string) string {
	if folder.IsAt(path) {
		query = strings.TrimPrefix(query+"&vfs="+vfsName, "&")
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query}).String()
}

// quickCheckOn runs SQLite's quick_check. It returns the problems of the database, or an empty string.
func quickCheckOn(c *sqlite3.Conn) (problems string, err error) {
	stmt, _, err := c.Prepare(fmt.Sprintf("PRAGMA quick_check(%d)", maxProblems))
	if err != nil {
		return "", err
	}
	defer stmt.Close()
	var found []string
	for stmt.Step() {
		// A row may hold several findings under a heading.
		for line := range strings.Lines(stmt.ColumnText(0)) {
			if line = strings.TrimSpace(line); line != "ok" && !strings.HasPrefix(line, "***") {
				found = append(found, line)
			}
		}
	}
	return strings.Join(found, "; "), stmt.Err()
}

// schema is how a version of the agent recognises its database: two equal schemas were made by the same migrations.
type schema struct {
	userVersion int64
	objects     [sha256.Size]byte
	tables      string // their names, quoted, apart by spaces
}

func readSchema(c *sqlite3.Conn) (schema, error) {
	version, err := queryInt(c, "PRAGMA user_version")
	s := schema{userVersion: version}
	if err != nil {
		return s, err
	}
	// Statistics tables come and go with ANALYZE; they are not schema.
	objects, _, err := c.Prepare(`SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema
		WHERE substr(name, 1, 11) <> 'sqlite_stat' ORDER BY type, name`)
	if err != nil {
		return s, err
	}
	defer objects.Close()
	sum := sha256.New()
	for objects.Step() {
		if objects.ColumnText(0) == "table" {
			s.tables += strconv.QuoteToASCII(strings.ReplaceAll(objects.ColumnText(1), " ", "_")) + " "
		}
		for i := range 4 {
			fmt.Fprintf(sum, "%q\n", objects.ColumnRawText(i))
		}
	}
	sum.Sum(s.objects[:0])
	return s, objects.Err()
}

func queryInt(c *sqlite3.Conn, query string) (int64, error) {
	stmt, _, err := c.Prepare(query)
	if err != nil {
		return 0, err
	}
	defer stmt.Close()
	var n int64
	if stmt.Step() {
		n = stmt.ColumnInt64(0)
	}
	return n, stmt.Err()
}
