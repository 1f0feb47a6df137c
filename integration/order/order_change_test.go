//go:build hosts

package order

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

var (
	// An update from 1.1.0 and the database of schema 2, in full.
	backedUp = []string{"journal: begun", "put 1.1.0/backup/sqlite.db", "put 1.1.0/backup/backup.yaml",
		"put rollback/sqlite.db", "put rollback/backup.yaml", "journal: begun, backup taken"}
	linked = []string{"link fdpass-teleport", "link tbot", "link tctl", "link tsh", "link teleport", "unit"}
	held   = []string{"journal: switched, backup taken", "journal: proven, backup taken", "put original/before.json", "configuration", "remove rollback", "journal removed"}
	// A backup is restored once.
	restored = []string{"journal: proven, backup taken", "put original/before.json", "configuration", "drop 1.0.0/backup/backup.yaml", "remove rollback", "journal removed"}
)

func TestOrderOfTheFirstEnable(t *testing.T) {
	s := stage(t, "1.0.0")
	s.agent(1)
	s.wants("1.1.0")
	s.does(args("enable"),
		"publish 1.1.0", "updater's copy", "updater's units",
		"journal: begun", "put original/backup/sqlite.db", "put original/backup/backup.yaml", "put rollback/sqlite.db", "put rollback/backup.yaml", "journal: begun, backup taken",
		"put original/tsh-*", "put original/teleport-*", "link tctl", "link tsh", "link teleport", "unit", "cluster report",
		"journal: switched, backup taken", "journal: proven, backup taken", "put original/before.json", "configuration", "remove rollback", "journal removed")
}

// As on a host whose programs have a folder of their own, which is the default: the record
// of a version has its name only once what leads to its programs is on stable storage.
func TestOrderWithProgramsApart(t *testing.T) {
	s := stage(t, "")
	s.wants("1.1.0")
	s.does(args("enable", "--programs-dir", s.h.programs()),
		"publish 1.1.0", "updater's copy", "updater's units",
		"journal: begun", "link tctl", "link tsh", "link teleport", "unit", "cluster report",
		"journal: switched", "journal: proven", "put original/before.json", "configuration", "journal removed")
	// The configuration, by which the rest is found after a cut, is in what goes last.
	s.does(args("uninstall"), "configuration", "link tctl", "link tsh", "link teleport",
		"cluster report goes", "updater's units go", "remove the updater's copy", "remove the programs of 1.1.0", "remove the store")
}

func TestOrderOfAnUpdateAndOfGoingBack(t *testing.T) {
	s := stage(t, "")
	s.enabled("1.0.0", 1)
	s.wants("1.1.0")
	s.must("update")
	s.agent(2)
	s.wants("2.0.0")
	s.does(args("update"), slices.Concat([]string{"publish 2.0.0"}, backedUp, linked, held, []string{"remove 1.0.0"})...)
	s.agent(3)
	s.does(args("rollback"),
		"journal: begun", "put 2.0.0/backup/sqlite.db", "put 2.0.0/backup/backup.yaml", "put rollback/sqlite.db", "put rollback/backup.yaml", "journal: begun, backup taken",
		"link fdpass-teleport goes", "link tbot goes", "link tctl", "link tsh", "link teleport", "unit",
		"journal: switched, backup taken", "the database is written",
		"journal: proven, backup taken", "put original/before.json", "configuration", "drop 1.1.0/backup/backup.yaml", "remove rollback", "journal removed")
	s.agent(2)
	s.does(args("update", "--now", "--skip-backup"), slices.Concat(
		[]string{"journal: begun"}, linked,
		[]string{"journal: switched", "journal: proven", "put original/before.json", "configuration", "journal removed"})...)
}

func TestOrderOfABackupOverAnOlderOne(t *testing.T) {
	s := stage(t, "")
	s.enabled("1.1.0", 2)
	s.wants("2.0.0")
	s.cutAt("journal: switched, backup taken", "update")
	s.must("recover")
	// As a tool leaves it that looked into the backup.
	if err := os.WriteFile(filepath.Join(s.h.versions(), "1.1.0/backup/sqlite.db-wal"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.does(args("update"), slices.Concat([]string{"publish 2.0.0", "journal: begun", "drop 1.1.0/backup/backup.yaml"}, backedUp[1:], linked, held)...)
}

func TestOrderOfReplacingADamagedVersion(t *testing.T) {
	s := stage(t, "")
	s.enabled("1.0.0", 1)
	s.wants("1.1.0")
	s.must("update")
	if err := os.Truncate(filepath.Join(s.h.versions(), "1.0.0/bin/tsh"), 0); err != nil {
		t.Fatal(err)
	}
	s.wants("1.0.0")
	s.does(args("update"), slices.Concat([]string{"publish 1.0.0"}, backedUp,
		[]string{"link tbot", "link tctl", "link tsh", "link teleport", "unit", "journal: switched, backup taken", "the database is written"}, restored)...)
}

// A database whose pages have another size cannot be overwritten in place.
func TestOrderOfExchangingTheDatabase(t *testing.T) {
	s := stage(t, "")
	s.enabled("1.0.0", 1)
	s.wants("1.1.0")
	s.must("update")
	db, err := sqlite3.Open(s.h.database())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Exec("PRAGMA page_size=8192; VACUUM; PRAGMA journal_mode=wal"), db.Close()); err != nil {
		t.Fatal(err)
	}
	s.does(args("rollback"), slices.Concat(backedUp,
		[]string{"link tbot", "link tctl", "link tsh", "link teleport", "unit", "journal: switched, backup taken",
			"drop sqlite.db-wal", "the database is written", "the database is replaced"}, restored)...)
}

func TestOrderOfLeavingADamagedDatabase(t *testing.T) {
	s := stage(t, "")
	s.enabled("1.0.0", 1)
	s.wants("1.1.0")
	s.must("update")
	if err := os.WriteFile(s.h.database(), []byte(strings.Repeat("not a database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.does(args("rollback", "--force"),
		"journal: begun", "the database is kept aside", "journal: begun", "link tbot", "link tctl", "link tsh", "link teleport", "unit",
		"journal: switched", "the database is replaced", "journal: proven", "put original/before.json", "configuration",
		"drop 1.0.0/backup/backup.yaml", "journal removed")
}

func TestOrderOfTheUpdatersOwnLink(t *testing.T) {
	s := stage(t, "")
	s.brings("1.0.0")
	s.does(args("enable"), "publish 1.0.0", "updater's copy", "updater's units",
		"journal: begun", "link tbot", "link tctl", "link tsh", "link teleport", "unit", "cluster report", "journal: switched", "journal: proven",
		"put original/before.json", "configuration", "link teleport-update", "journal removed")
}

// What stands in the way of a transaction before its journal is open is told by status,
// too, and not only by the command that nobody may have watched.
func TestOrderOfATransactionThatCannotBegin(t *testing.T) {
	// The updater's own link is the last that is made, long after the agent's.
	for _, name := range []string{"tsh", "teleport-update"} {
		t.Run(name, func(t *testing.T) {
			s := stage(t, "")
			s.brings("1.0.0")
			if err := os.Mkdir(filepath.Join(s.h.links(), name), 0o755); err != nil {
				t.Fatal(err)
			}
			s.ends(1, "is a folder", args("enable"), "publish 1.0.0", "remove 1.0.0", "configuration")
			status, err := s.h.run(t.Context(), "status", "--format", "json")
			if err != nil || !strings.Contains(status.stdout, `"last_result": "failed"`) {
				t.Errorf("status, %v: %s", err, status.stdout)
			}
		})
	}
}
