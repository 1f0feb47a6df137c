package backup

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"teleport-update/integration/trace"
)

var (
	copied = regexp.MustCompile(`\.tmp-sqlite\.db-\w+`)
	meta   = regexp.MustCompile(`\.tmp-backup\.yaml-\w+`)
)

// calls runs a role and returns what it does to which file, relative to the folder
// and in order, once where it does it several times in a row.
func calls(t *testing.T, dir, role string, args ...string) []string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	calls, result, err := trace.Changes(t.Context(), trace.Command{
		Argv: append([]string{self}, args...), Env: append(os.Environ(), "BACKUP_TEST_ROLE="+role),
	}, dir)
	if err != nil || result.ExitCode != 0 {
		t.Fatalf("%s: %v, exit code %d: %s", role, err, result.ExitCode, result.Stderr)
	}
	for i := range calls {
		calls[i] = meta.ReplaceAllString(copied.ReplaceAllString(calls[i], "COPY"), "META")
	}
	return slices.Compact(calls)
}

// ends asserts how a list of calls ends: what comes before is SQLite's own affair,
// or says nothing about what survives.
func ends(t *testing.T, calls []string, want ...string) {
	t.Helper()
	if got := calls[max(0, len(calls)-len(want)):]; !slices.Equal(got, want) {
		t.Errorf("the last calls are\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestABackupIsMadeInTheOrderThatSurvivesAPowerCut(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "", 40, 1)
	h.take(t, "15.1.0")
	must(t, os.WriteFile(h.copied()+"-wal", nil, 0o600))
	ends(t, calls(t, h.dir, "take", h.db, h.dir, "15.1.0"),
		"fchown COPY", "fsync COPY",
		"unlinkat backup.yaml", "fsync .",
		"unlinkat sqlite.db-journal", "unlinkat sqlite.db-wal", "unlinkat sqlite.db-shm",
		"rename COPY sqlite.db", "fsync .",
		"openat META", "write META", "fchmod META", "fsync META", "rename META backup.yaml", "fsync .")
}

// What lies beside the database that is in the way is gone for good before another file
// has its name: SQLite would take it for that one's.
func TestADatabaseIsPutBackInTheOrderThatSurvivesAPowerCut(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "", 40, 1)
	dir := filepath.Dir(h.db)
	for _, name := range []string{"kept", "kept-wal", filepath.Base(h.db) + "-wal"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	ends(t, calls(t, dir, "put back", h.db, "kept"),
		"unlinkat sqlite.db-journal", "unlinkat sqlite.db-wal", "unlinkat sqlite.db-shm", "fsync .",
		"rename kept sqlite.db", "fsync .", "rename kept-wal sqlite.db-wal", "fsync .")
}

func TestARestoreIsMadeInTheOrderThatSurvivesAPowerCut(t *testing.T) {
	for name, want := range map[string]struct{ copied, then []string }{
		"over a database in rollback mode": {then: []string{"fsync sqlite.db", "fsync ."}},
		// SQLite leaves it to others to make sure that the WAL stays away.
		// It is opened for its lock, then.
		"over a database in WAL mode": {then: []string{"unlinkat sqlite.db-wal", "openat sqlite.db", "fsync sqlite.db", "fsync ."}},
		// Between the two the old file is made whole alone. Its sidecars are gone for
		// good before another file has its name.
		"in the place of a file with a WAL": {
			copied: []string{"fchown COPY", "fchmod COPY", "fsync COPY"},
			then: []string{"unlinkat sqlite.db-journal", "unlinkat sqlite.db-wal", "unlinkat sqlite.db-shm", "fsync .",
				"rename COPY sqlite.db", "fsync .", "fsync sqlite.db", "fsync ."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			makeDB(t, h.db, "", 40, 1)
			h.take(t, "15.1.0")
			spoilt[name](t, h.db)
			got := calls(t, filepath.Dir(h.db), "restore", h.dir, h.db)
			ends(t, got, want.then...)
			if want.copied != nil {
				ends(t, got[:slices.Index(got, "fsync COPY")+1], want.copied...)
			}
		})
	}
}
