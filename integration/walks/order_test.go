//go:build hosts

package walks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/integration/host"
	"teleport-update/integration/trace"
)

// staged is a host on which one command after another is recorded.
type staged struct {
	*testing.T
	h   *machine
	out Outside
}

func stage(t *testing.T, agentBefore string) *staged {
	updater, err := host.Build(t.Context(), host.Updater())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(memory, strings.ReplaceAll(t.Name(), "/", "-"))
	h, err := newMachine(dir, updater, agentBefore)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Close()
		os.RemoveAll(dir)
	})
	return &staged{T: t, h: h, out: quiet()}
}

// wants has the cluster want a version, and an agent write before it comes.
func (s *staged) wants(v string) {
	s.out.Target.Version = v
	s.h.set(s.out)
}

func (s *staged) agent(schema int) {
	s.Helper()
	if ok, _, err := s.h.agent(Agent{Rows: 3}, schema); !ok || err != nil {
		s.Fatalf("the agent did not run: %v", err)
	}
}

// must runs a command without looking.
func (s *staged) must(args ...string) {
	s.Helper()
	r, err := s.h.run(s.Context(), false, 0, args...)
	if err != nil || r.code != 0 {
		s.Fatalf("%v: exit code %d, %v\n%s", args, r.code, err, r.stderr)
	}
}

// cutAt runs a command and kills it as soon as something happened.
func (s *staged) cutAt(event string, args ...string) {
	s.Helper()
	rec := newRecorder(s.h)
	r, err := trace.Run(s.Context(), trace.Command{Argv: s.h.argv(args...), Env: s.h.env(false)}, func(c trace.Call) trace.Action {
		rec.watch(c)
		if n := len(rec.Events); n > 0 && undigested(rec.Events[n-1]) == event {
			return trace.Kill()
		}
		return trace.GoOn()
	})
	if err != nil || !r.Killed {
		s.Fatalf("%v: was not killed at %q: %v, it did\n%s\n%s", args, event, err, strings.Join(rec.Events, "\n"), r.Stderr)
	}
}

// does runs a command and compares what it did, in order, and complains about
// what was not on stable storage when it had to be.
func (s *staged) does(args []string, want ...string) {
	s.Helper()
	rec := newRecorder(s.h)
	r, err := trace.Run(context.Background(), trace.Command{Argv: s.h.argv(args...), Env: s.h.env(false)}, rec.watch)
	rec.end()
	if err != nil || r.ExitCode != 0 {
		s.Errorf("%v: exit code %d, %v\n%s", args, r.ExitCode, err, r.Stderr)
	}
	if len(rec.Loose) > 0 {
		s.Errorf("%v: a power cut could take away:\n%s", args, strings.Join(rec.Loose, "\n"))
	}
	for i, e := range rec.Events {
		rec.Events[i] = undigested(e)
	}
	if !slices.Equal(rec.Events, want) {
		s.Errorf("%v did\n\t%s\nwant\n\t%s", args, strings.Join(rec.Events, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// undigested leaves out the digest in the name of a copy.
func undigested(event string) string {
	name, _, ok := strings.Cut(event, "-")
	if ok && (strings.HasPrefix(event, "put original/") || strings.HasPrefix(event, "drop original/")) {
		return name + "-*"
	}
	return event
}

func args(a ...string) []string { return a }

// A recipe of lists: what was written above, and then more.
func then(first []string, more ...string) []string { return append(slices.Clone(first), more...) }

var (
	// An update from 1.1.0 and the database of schema 2, in full.
	backedUp = []string{"journal: begun", "put 1.1.0/backup/sqlite.db", "put 1.1.0/backup/backup.yaml", "journal: begun, backup taken"}
	linked   = []string{"link fdpass-teleport", "link tbot", "link tctl", "link tsh", "link teleport", "unit"}
	held     = []string{"journal: switched, backup taken", "journal: proven, backup taken", "put original/before.json", "configuration", "journal removed"}
)

func TestOrderOfTheFirstEnable(t *testing.T) {
	s := stage(t, "1.0.0")
	s.agent(1)
	s.wants("1.1.0")
	s.does(args("enable"),
		"publish 1.1.0", "updater's copy", "updater's units",
		"journal: begun", "put original/backup/sqlite.db", "put original/backup/backup.yaml", "journal: begun, backup taken",
		"put original/tsh-*", "put original/teleport-*", "link tctl", "link tsh", "link teleport", "unit",
		"journal: switched, backup taken", "journal: proven, backup taken", "put original/before.json", "configuration", "journal removed")
}

func TestOrderOfAnUpdateAndOfGoingBack(t *testing.T) {
	s := stage(t, "")
	s.wants("1.0.0")
	s.must("enable")
	s.agent(1)
	s.wants("1.1.0")
	s.must("update")
	s.agent(2)
	s.wants("2.0.0")
	s.does(args("update"), slices.Concat([]string{"publish 2.0.0"}, backedUp, linked, held, []string{"remove 1.0.0"})...)
	s.agent(3)
	s.does(args("rollback"),
		"journal: begun", "put 2.0.0/backup/sqlite.db", "put 2.0.0/backup/backup.yaml", "journal: begun, backup taken",
		"link fdpass-teleport goes", "link tbot goes", "link tctl", "link tsh", "link teleport", "unit",
		"journal: switched, backup taken", "the database is written",
		"journal: proven, backup taken", "put original/before.json", "configuration", "journal removed")
	s.agent(2)
	s.does(args("update", "--now", "--skip-backup"), slices.Concat(
		[]string{"journal: begun", "drop 1.1.0/backup/backup.yaml"}, linked,
		[]string{"journal: switched", "journal: proven", "put original/before.json", "configuration", "journal removed"})...)
}

func TestOrderOfABackupOverAnOlderOne(t *testing.T) {
	s := stage(t, "")
	s.wants("1.1.0")
	s.must("enable")
	s.agent(2)
	s.wants("2.0.0")
	s.cutAt("journal: switched, backup taken", "update")
	s.must("recover")
	// As a tool leaves it that looked into the backup.
	if err := os.WriteFile(filepath.Join(s.h.versions(), "1.1.0/backup/sqlite.db-wal"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.does(args("update"), slices.Concat([]string{"publish 2.0.0", "journal: begun", "drop 1.1.0/backup/backup.yaml"}, backedUp[1:], linked, held)...)
}

func TestOrderOfUndoing(t *testing.T) {
	undone := []string{"journal removed", "remove 2.0.0"}
	for event, want := range map[string][]string{
		"journal: begun":               {"journal: rolling_back", "unit", "journal: restored", "configuration"},
		"journal: begun, backup taken": {"journal: rolling_back, backup taken", "unit", "journal: restored, backup taken", "configuration"},
		"link tsh": {"journal: rolling_back, backup taken", "link fdpass-teleport goes", "link tbot goes", "link tctl", "link tsh", "unit",
			"journal: restored, backup taken", "configuration"},
		"unit": {"journal: rolling_back, backup taken", "link fdpass-teleport goes", "link tbot goes", "link tctl", "link tsh", "link teleport", "unit",
			"journal: restored, backup taken", "configuration"},
		"journal: switched, backup taken": {"journal: rolling_back, backup taken",
			"link fdpass-teleport goes", "link tbot goes", "link tctl", "link tsh", "link teleport", "unit",
			"the database is written", "journal: restored, backup taken", "configuration"},
		"journal: proven, backup taken": nil,
	} {
		t.Run(event, func(t *testing.T) {
			s := stage(t, "")
			s.wants("1.1.0")
			s.must("enable")
			s.agent(2)
			s.wants("2.0.0")
			s.cutAt(event, "update")
			if want == nil {
				s.does(args("recover"), "put original/before.json", "configuration", "journal removed")
			} else {
				s.does(args("recover"), then(want, undone...)...)
			}
		})
	}
}

func TestOrderOfUndoingADowngrade(t *testing.T) {
	s := stage(t, "")
	s.wants("1.0.0")
	s.must("enable")
	s.agent(1)
	s.wants("1.1.0")
	s.must("update")
	s.agent(2)
	s.cutAt("the database is written", "rollback")
	s.does(args("recover"),
		"journal: rolling_back, backup taken", "link tbot goes", "link tctl", "link tsh", "link teleport", "unit",
		"the database is written", "journal: restored, backup taken", "configuration", "journal removed")
}

func TestOrderOfFinishingWhatWasTakenAway(t *testing.T) {
	s := stage(t, "")
	s.wants("1.0.0")
	s.must("enable")
	s.agent(1)
	s.wants("1.1.0")
	s.cutAt("journal: proven, backup taken", "update")
	if err := os.Remove(filepath.Join(s.h.links(), "tsh")); err != nil {
		t.Fatal(err)
	}
	s.does(args("recover"), "put original/before.json", "journal: proven, backup taken", "link tsh", "unit", "configuration", "journal removed")
}

func TestOrderOfUndoingTheFirstEnable(t *testing.T) {
	s := stage(t, "1.0.0")
	s.agent(1)
	s.wants("1.1.0")
	s.cutAt("journal: switched, backup taken", "enable")
	s.does(args("recover"),
		"journal: rolling_back, backup taken", "link tctl goes", "link tsh", "link teleport", "unit",
		"the database is written", "journal: restored, backup taken",
		"updater's units go", "remove the updater's copy", "remove 1.1.0", "remove original", "configuration", "journal removed")
}

func TestOrderOfReplacingADamagedVersion(t *testing.T) {
	s := stage(t, "")
	s.wants("1.0.0")
	s.must("enable")
	s.agent(1)
	s.wants("1.1.0")
	s.must("update")
	if err := os.Truncate(filepath.Join(s.h.versions(), "1.0.0/bin/tsh"), 0); err != nil {
		t.Fatal(err)
	}
	s.wants("1.0.0")
	s.does(args("update"), slices.Concat([]string{"publish 1.0.0"}, backedUp,
		[]string{"link tbot", "link tctl", "link tsh", "link teleport", "unit", "journal: switched, backup taken", "the database is written"}, held[1:])...)
}

func TestOrderOfRepairing(t *testing.T) {
	s := stage(t, "")
	s.wants("1.0.0")
	s.must("enable")
	for _, path := range []string{s.h.unit(), filepath.Join(s.h.links(), "tsh"), filepath.Join(s.h.units(), "teleport-update.timer")} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	s.does(args("update", "--now"), "link tsh", "unit", "updater's units")
}

func TestOrderOfUninstall(t *testing.T) {
	last := []string{"updater's units go", "remove the updater's copy", "remove the store"}
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprint("keep agent ", keep), func(t *testing.T) {
			s := stage(t, "1.0.0")
			s.wants("1.1.0")
			s.must("enable")
			if keep {
				s.does(args("uninstall", "--keep-agent"), then([]string{"configuration", "journal: uninstalling", "link tctl", "link tsh", "link teleport"}, last...)...)
			} else {
				s.does(args("uninstall"), then([]string{"configuration", "journal: uninstalling", "link tctl goes", "link teleport goes", "link tsh goes",
					"link tsh", "link teleport", "unit"}, last...)...)
			}
		})
	}
}

// Where updates.yaml was lost, the links are there already when the updater is
// enabled, so that nothing is put back in their place.
func TestOrderOfUninstallAfterTheConfigurationWasLost(t *testing.T) {
	s := stage(t, "")
	s.wants("1.1.0")
	s.must("enable")
	if err := os.Remove(s.h.config()); err != nil {
		t.Fatal(err)
	}
	s.must("enable")
	s.does(args("uninstall"), "configuration", "journal: uninstalling", "link tctl goes", "link teleport goes", "link tsh goes",
		"unit goes", "updater's units go", "remove the updater's copy", "remove the store")
}

// A database whose pages have another size cannot be overwritten in place.
func TestOrderOfExchangingTheDatabase(t *testing.T) {
	s := stage(t, "")
	s.wants("1.0.0")
	s.must("enable")
	s.agent(1)
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
			"drop sqlite.db-wal", "the database is written", "the database is replaced"}, held[1:])...)
}

func TestOrderOfLeavingADamagedDatabase(t *testing.T) {
	s := stage(t, "")
	s.wants("1.0.0")
	s.must("enable")
	s.agent(1)
	s.wants("1.1.0")
	s.must("update")
	if err := os.WriteFile(s.h.database(), []byte(strings.Repeat("not a database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.does(args("rollback", "--force"),
		"journal: begun", "the database is kept aside", "link tbot", "link tctl", "link tsh", "link teleport", "unit",
		"journal: switched", "the database is replaced", "journal: proven", "put original/before.json", "configuration", "journal removed")
}

func TestOrderOfTheUpdatersOwnLink(t *testing.T) {
	s := stage(t, "")
	r := Releases()[0]
	s.out.Shelves[r] = Shelf{Build: Build{Release: r, Runs: true, Updater: s.h.updater}}
	s.wants("1.0.0")
	s.does(args("enable"), "publish 1.0.0", "updater's copy", "updater's units",
		"journal: begun", "link tbot", "link tctl", "link tsh", "link teleport", "unit", "journal: switched", "journal: proven",
		"put original/before.json", "configuration", "link teleport-update", "journal removed")
}

// What stands in the way of a switch before its journal is open is told by status,
// too, and not only by the command that nobody may have watched.
func TestOrderOfASwitchThatCannotBegin(t *testing.T) {
	s := stage(t, "")
	s.wants("1.0.0")
	if err := os.Mkdir(filepath.Join(s.h.links(), "tsh"), 0o755); err != nil {
		t.Fatal(err)
	}
	rec := newRecorder(s.h)
	r, err := trace.Run(t.Context(), trace.Command{Argv: s.h.argv("enable"), Env: s.h.env(false)}, rec.watch)
	if err != nil || r.ExitCode != 1 || !strings.Contains(string(r.Stderr), "is a folder") {
		t.Errorf("exit code %d, %v: %s", r.ExitCode, err, r.Stderr)
	}
	if want := []string{"publish 1.0.0", "remove 1.0.0", "configuration"}; !slices.Equal(rec.Events, want) {
		t.Errorf("it did %q; want %q", rec.Events, want)
	}
	status, err := s.h.run(t.Context(), false, 0, "status")
	if err != nil || !strings.Contains(status.stdout, `"last_result": "failed"`) {
		t.Errorf("status, %v: %s", err, status.stdout)
	}
}
