package installer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/backup"
	"teleport-update/installer/decision"
	"teleport-update/internal/version"
)

// A transaction that nothing tells of any more left a database of another version: the host is
// not idle.
func TestStatusTellsOfATransactionThatWasLost(t *testing.T) {
	i := testInstaller(t)
	dir := filepath.Join(i.Machine.Host.Paths.Versions(), "15.1.1")
	writeFile(t, i.Machine.Host.Paths.Config(), wholeConfig)
	writeFile(t, filepath.Join(dir, "edition"), "enterprise\n")
	writeFile(t, filepath.Join(dir, "manifest"), "")
	writeFile(t, filepath.Join(dir, "sha256"), strings.Repeat("ab", 32)+"\n")
	path := filepath.Join(i.Machine.Host.Paths.DataDir, "proc", "sqlite.db")
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	exec := func(sql string) {
		c, err := sqlite3.Open(path)
		must(t, err)
		must(t, c.Exec(sql))
		must(t, c.Close())
	}
	exec("CREATE TABLE t (n INTEGER)")
	db, err := backup.Open(path)
	must(t, err)
	_, err = db.Take(t.Context(), backup.TakeRequest{Dir: filepath.Join(dir, "backup"),
		Meta: backup.Meta{Version: "15.1.1", Edition: version.Enterprise, Created: noon}})
	must(t, err)
	must(t, db.Close())
	lost := func() bool {
		r, err := i.Status(t.Context(), StatusOptions{Offline: true})
		must(t, err)
		return r.State == decision.NeedsAttention && strings.Contains(r.Explanation, "its journal is gone")
	}
	if lost() {
		t.Error("a transaction is told of, and the database is as it was")
	}
	exec("CREATE TABLE migrated (n INTEGER); PRAGMA user_version=2")
	if !lost() {
		t.Error("the database is another version's, and nobody says so")
	}
}
