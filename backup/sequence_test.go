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
	var calls []string
	result, err := trace.Run(t.Context(), trace.Command{
		Argv: append([]string{self}, args...), Env: append(os.Environ(), "BACKUP_TEST_ROLE="+role),
	}, func(c trace.Call) trace.Action {
		if c.Exit {
			return trace.GoOn()
		}
		words := []string{c.Name}
		for _, path := range []string{c.Path, c.To} {
			if rel, err := filepath.Rel(dir, path); path != "" && err == nil {
				words = append(words, meta.ReplaceAllString(copied.ReplaceAllString(rel, "COPY"), "META"))
			}
		}
		calls = append(calls, strings.Join(words, " "))
		return trace.GoOn()
	})
	if err != nil || result.ExitCode != 0 {
		t.Fatalf("%s: %v, exit code %d: %s", role, err, result.ExitCode, result.Stderr)
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

// No test that looks at the files afterwards can tell whether they were synced, as
// long as the power stays on.
func TestABackupIsMadeInTheOrderThatSurvivesAPowerCut(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "", 40, 1)
	h.take(t, "15.1.0")
	must(t, os.WriteFile(h.copied()+"-wal", nil, 0o600))
	ends(t, calls(t, h.dir, "take", h.db, h.dir, "15.1.0"),
		"fchown COPY", "fsync COPY",
		"unlinkat backup.yaml", "fsync .",
		"unlinkat sqlite.db-journal", "unlinkat sqlite.db-wal", "unlinkat sqlite.db-shm",
		"renameat COPY sqlite.db", "fsync .",
		"openat META", "write META", "fchmod META", "fsync META", "renameat META backup.yaml", "fsync .")
}

func TestARestoreIsMadeInTheOrderThatSurvivesAPowerCut(t *testing.T) {
	for name, want := range map[string]struct{ copied, then []string }{
		"over a database in rollback mode": {then: []string{"fsync sqlite.db", "fsync ."}},
		// SQLite leaves it to others to make sure that the WAL stays away.
		"over a database in WAL mode": {then: []string{"unlinkat sqlite.db-wal", "fsync sqlite.db", "fsync ."}},
		// Between the two the old file is made whole alone. Its sidecars are gone for
		// good before another file has its name.
		"in the place of a file with a WAL": {
			copied: []string{"fchown COPY", "fchmod COPY", "fsync COPY"},
			then: []string{"unlinkat sqlite.db-journal", "unlinkat sqlite.db-wal", "unlinkat sqlite.db-shm", "fsync .",
				"renameat COPY sqlite.db", "fsync .", "fsync sqlite.db", "fsync ."},
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
