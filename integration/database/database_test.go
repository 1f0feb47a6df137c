//go:build hosts

package database

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/installer/decision"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
	"teleport-update/internal/version"
)

// RFD 0169 §Runtime, steps 11 to 14: the old version gets back the database that
// it had, whatever the new one did to it.
func TestAVersionThatMigratesAndCrashesLeavesNoTrace(t *testing.T) {
	t.Parallel()
	restarts := release.Unit{NoReload: true}
	for _, tc := range []struct {
		name, mode string
		old, new   release.Spec
	}{
		{"WAL, after a handover", "wal", release.Spec{}, release.Spec{Variant: stamp.CrashLoops, CrashAfter: 500 * time.Millisecond}},
		{"rollback journal, after a handover", "delete", release.Spec{}, release.Spec{Variant: stamp.CrashLoops, CrashAfter: 500 * time.Millisecond}},
		{"WAL, at a start", "wal", release.Spec{Unit: restarts}, release.Spec{Unit: restarts, Variant: stamp.MigratesThenExits}},
		{"rollback journal, at a start", "delete", release.Spec{Unit: restarts}, release.Spec{Unit: restarts, Variant: stamp.MigratesThenExits}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t)
			tc.old.Version, tc.new.Version, tc.new.Schema = "1.0.0", "1.1.0", 2
			s.Release(tc.old)
			s.Release(tc.new)
			s.Writes(tc.mode, 200)
			s.RunsOn("1.0.0", "--health-window", "2s")
			before, file := s.Grows(100), s.Must("stat", "-c", "%a %U", scenes.LiveFile)

			s.Wants("1.1.0")
			s.Fails(1, "version 1.1.0 was not healthy and was rolled back", updater, "update")
			s.Serves("1.0.0")

			saved := s.Saved("1.0.0")
			s.Whole("the backup", saved, 1)
			if saved.Last < before {
				t.Errorf("the backup ends at row %d; %d was committed before it", saved.Last, before)
			}
			s.Grows(saved.Last)
			live := s.Live()
			s.Whole("the database", live, 1)
			if live.JournalMode != tc.mode || live.ByVersion["1.1.0"] != 0 {
				t.Errorf("the database holds %v, in journal mode %s", live, live.JournalMode)
			}
			s.SameRows("1.0.0", saved.Last)
			if got := s.Must("stat", "-c", "%a %U", scenes.LiveFile); got != file {
				t.Errorf("mode and owner of the database are %s; were %s", got, file)
			}
			s.onlyDatabase()
			t.Logf("row %d was committed before the update, %d rows were backed up, %d are there", before, saved.Rows, live.Rows)
		})
	}
}

// onlyDatabase asserts that nothing of the updater's is left beside the database.
func (s *scene) onlyDatabase() {
	s.T.Helper()
	names, err := s.Names(scenes.AgentData + "/proc")
	if err != nil {
		s.T.Fatal(err)
	}
	for _, name := range names {
		if !slices.Contains([]string{"sqlite.db", "sqlite.db-wal", "sqlite.db-shm", "sqlite.db-journal"}, name) {
			s.T.Errorf("%s is left beside the database", name)
		}
	}
}

// An agent that was killed leaves commits in a WAL, or half a transaction in the
// database with a journal that says how to take it back.
func TestWhatAKilledAgentLeftBehindIsBackedUpWhole(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, mode string
		failed     bool // the unit is failed, else it is off
	}{
		{"WAL, the unit failed", "wal", true},
		{"rollback journal, the unit failed", "delete", true},
		{"WAL, the unit is off", "wal", false},
		{"rollback journal, the unit is off", "delete", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t)
			variant := stamp.Sound
			if tc.failed {
				variant = stamp.MigratesThenExits
			}
			s.Sound("1.0.0")
			s.Release(release.Spec{Version: "1.1.0", Schema: 2, Variant: variant})
			s.Writes(tc.mode, 1000)
			s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\nRestart=no\n")
			s.RunsOn("1.0.0", "--health-window", "1s")
			committed := s.Grows(1000)
			s.killAgent(tc.mode)
			want := s.recovered()
			if want.Last < committed {
				t.Fatalf("row %d was committed, %d is the last after the kill", committed, want.Last)
			}
			if !tc.failed {
				s.Must("systemctl", "reset-failed", "teleport")
			}

			s.Wants("1.1.0")
			if tc.failed {
				s.Fails(1, "was not healthy and was rolled back", updater, "update")
				s.Serves("1.0.0")
			} else {
				s.Fails(4, "the agent is enabled at boot and does not run", updater, "update")
				s.Linked("1.1.0")
				s.Must("systemctl", "start", "teleport")
				s.Serves("1.1.0")
				s.Grows(want.Last)
				if live := s.Live(); live.Schema != 2 || live.ByVersion["1.0.0"] != want.Last {
					t.Errorf("the new version has %v; want all of %v, migrated", live, want)
				}
				s.Must(updater, "rollback")
				s.Serves("1.0.0")
			}
			saved := s.Saved("1.0.0")
			s.Whole("the backup", saved, 1)
			if saved.Last != want.Last || saved.ByVersion["lost"] != 0 {
				t.Errorf("the backup holds %v; want %v", saved, want)
			}
			s.Grows(want.Last)
			s.Whole("the database", s.Live(), 1)
			s.SameRows("1.0.0", want.Last)
		})
	}
}

// killAgent kills the agent in the middle of its work. With a rollback journal,
// a transaction that was half written is left behind in any case.
func (s *scene) killAgent(mode string) {
	s.T.Helper()
	s.KillsMain("teleport")
	host.Wait(s.T, patience, func() error {
		if state := s.Show("teleport", "ActiveState"); state != "failed" {
			return fmt.Errorf("the agent's unit is %s", state)
		}
		return nil
	})
	sidecar := "-wal"
	if mode == "delete" {
		sidecar = "-journal"
		s.Try("sh", "-c", "sqlite3 "+scenes.LiveFile+` "PRAGMA cache_size=5" "BEGIN" "UPDATE rows SET version='lost'" ".shell kill -9 \$PPID"`)
	}
	info, err := s.Lstat(scenes.LiveFile + sidecar)
	if err != nil || info.Size() == 0 {
		s.T.Fatalf("the agent left no %s: %v", sidecar, err)
	}
}

// recovered is what the database holds once SQLite has recovered it, on a copy.
func (s *scene) recovered() scenes.Content {
	s.T.Helper()
	s.Must("sh", "-c", "rm -rf /tmp/look && mkdir /tmp/look && cp "+scenes.LiveFile+"* /tmp/look/ && sqlite3 /tmp/look/sqlite.db 'PRAGMA journal_mode=delete; SELECT count(*) FROM rows'")
	return s.Settled("/tmp/look/sqlite.db")
}

func TestTheDatabaseIsFoundWhereTheAgentKeepsIt(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Variant: stamp.MigratesThenExits, Schema: 2, Unit: release.Unit{NoReload: true}})
	s.Write("/etc/teleport.yaml", "teleport:\n  diag_addr: 127.0.0.1:3000\n  data_dir: /srv/agent\n")
	s.RunsOn("1.0.0", "--health-window", "1s")
	before := s.Grows(3)

	s.Wants("1.1.0")
	s.Fails(1, "was not healthy and was rolled back", updater, "update")
	s.Serves("1.0.0")
	saved := s.Saved("1.0.0")
	s.Whole("the backup", saved, 1)
	s.Grows(saved.Last)
	if live := s.LiveIn("/srv/agent"); saved.Last < before || live.Schema != 1 || live.Rows != live.Last {
		t.Errorf("row %d was committed, the backup holds %v, the database %v", before, saved, live)
	}
	if s.Exists(scenes.AgentData + "/proc") {
		t.Error("a database folder appeared where the agent has none")
	}

	// Half a configuration says nothing about where the database is.
	s.Write("/etc/teleport.yaml", "teleport: [\n")
	s.Refused("half a configuration", []string{"find the agent's database", "/etc/teleport.yaml", "nothing was changed"}, updater, "update", "--now")
}

// When undoing a transaction fails too, some agent runs until the next run succeeds: here
// the new version, whole, on its own database, for the old one's cannot go back.
func TestAnUndoingThatFailsLeavesAnAgentAndIsBegunAgain(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	// It fails when it was asked long enough whether it is ready: not before the backup
	// is taken away.
	s.Release(release.Spec{Version: "1.1.0", Variant: stamp.NeverReady})
	s.Writes("wal", 100)
	s.RunsOn("1.0.0", "--health-window", "1s", "--ready-url", scenes.ReadyURL)
	s.Grows(50)
	s.Wants("1.1.0")
	update := s.Background(host.Command{Args: []string{updater, "update"}})
	s.Reaches(update, "switched")
	s.Signals(syscall.SIGSTOP)
	backup := store + "/1.0.0/backup"
	s.Must("mv", backup, "/root/backup")
	s.Must("rm", "-r", store+"/rollback") // its second name
	s.Signals(syscall.SIGCONT)
	s.Ends(update, 4)
	host.Wait(t, patience, func() error { return s.Executes(programs + "/1.1.0/bin/teleport") })
	s.LinkedFiles("1.1.0")
	r := s.Status()
	if r.State != decision.NeedsAttention || r.OpenTransaction == nil || r.OpenTransaction.Phase != "rolling_back" {
		t.Errorf("status: %s, open transaction %+v", r.State, r.OpenTransaction)
	}

	s.Must("mv", "/root/backup", backup)
	s.Set(find.Answer{Version: "1.1.0", Edition: version.OSS})
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick that begins again ends with %d", code)
	}
	s.Serves("1.0.0")
	saved := s.Saved("1.0.0")
	s.Grows(saved.Last)
	s.SameRows("1.0.0", saved.Last)
	if live := s.Live(); live.ByVersion["1.1.0"] != 0 {
		t.Errorf("the database holds %v", live)
	}
}

// damages are done to the file of a database with a rollback journal that the
// agent has open and is not writing.
var damages = []struct {
	name, script, says string
	deep               bool // only reading it all shows it
}{
	{name: "another kind of file", script: "echo 'this is not a database' >$DB", says: "has no header of an SQLite database"},
	{name: "zeros at the start", script: "dd if=/dev/zero of=$DB bs=4096 count=1 conv=notrunc", says: "has no header of an SQLite database"},
	{name: "cut short", script: "truncate -s 2000 $DB", says: "damaged or not a database"},
	{name: "a folder", script: "rm $DB; mkdir $DB", says: "is a folder"},
	{name: "a link", script: "mv $DB /root/elsewhere; ln -s /root/elsewhere $DB", says: "is a symbolic link"},
	{name: "two names", script: "ln $DB /root/second", says: "has 2 names"},
	{name: "damaged inside", deep: true, says: "damaged or not a database",
		script: "dd if=/dev/zero of=$DB bs=4096 count=1 conv=notrunc seek=$(($(sqlite3 $DB \"SELECT rootpage FROM sqlite_schema WHERE name='other'\") - 1))"},
}

func TestADatabaseThatCannotBeBackedUpStopsAnUpdate(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0", "1.2.0")
	s.Writes("delete", 0)
	s.RunsOn("1.0.0", "--health-window", "1s")
	// A table that the agent does not look at, as the real one has many.
	s.Must("sqlite3", scenes.LiveFile, "CREATE TABLE other (data BLOB); INSERT INTO other VALUES (randomblob(100000))")
	s.Must("cp", "-a", scenes.AgentData+"/proc", "/root/sound")
	heal := "rm -rf $DB /root/elsewhere /root/second; cp -a /root/sound/sqlite.db $DB"
	script := func(text string) { s.Must("sh", "-ec", "DB="+scenes.LiveFile+"\n"+text) }
	s.Wants("1.1.0")
	for _, tc := range damages {
		script(tc.script)
		damaged, downloaded := s.Tree(scenes.AgentData+"/proc"), s.Downloaded.Load()
		says := []string{scenes.LiveFile, tc.says, "nothing was changed: repair it, or move it away and restart the agent, or switch without a backup by `teleport-update update --now --skip-backup`"}
		s.Refused(tc.name+", dry run", says, updater, "update", "--now", "--dry-run")
		s.Refused(tc.name, says, updater, "update", "--now")
		if !tc.deep {
			s.DryRunAgrees(updater, "update", "--now")
		}
		s.Unchanged(damaged, s.Tree(scenes.AgentData+"/proc"))
		if n := s.Downloaded.Load() - downloaded; n != 0 && !tc.deep {
			t.Errorf("%s: %d bytes were downloaded for nothing", tc.name, n)
		}
		script(heal)
	}

	// The timer's unit fails once, not every ten minutes.
	script(damages[0].script)
	s.Wants("1.2.0") // without a failure on its record
	for i, want := range []int{1, 0, 0} {
		if code := s.Tick(); code != want {
			t.Errorf("tick %d ends with %d; want %d", i, code, want)
		}
	}
	if r := s.Status(); r.State != decision.NeedsAttention || !strings.Contains(r.Explanation, scenes.LiveFile) {
		t.Errorf("status: %s, %s", r.State, r.Explanation)
	}
	script(heal)
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick after the repair ends with %d", code)
	}
	s.Serves("1.2.0")
	if r := s.Status(); r.State != decision.Idle || r.SkippedBackup || r.RefusedVersion != nil {
		t.Errorf("status after the repair: %s, skipped %v, refused %s", r.State, r.SkippedBackup, scenes.Text(r.RefusedVersion))
	}

	// A person goes on without a backup.
	s.Sound("1.3.0")
	script(damages[len(damages)-1].script)
	s.Wants("1.3.0")
	s.Must(updater, "update", "--now", "--skip-backup")
	s.Serves("1.3.0")
	if r := s.Status(); !r.SkippedBackup || scenes.Text(r.LastResult) != "succeeded" {
		t.Errorf("status: skipped %v, last result %s", r.SkippedBackup, scenes.Text(r.LastResult))
	}
	if s.Exists(store + "/1.2.0/backup/backup.yaml") {
		t.Error("there is a backup of what cannot be backed up")
	}
	s.Must(updater, "update")
	if r := s.Status(); !r.SkippedBackup {
		t.Error("the next tick forgets that the backup was skipped")
	}
}

// A backup that is skipped leaves none: one from another time would take back
// rows without a word.
func TestASkippedBackupIsNotReplacedByAnOlderOne(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.Writes("wal", 100)
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Updates("1.1.0")
	s.Must(updater, "rollback")
	s.Serves("1.0.0")
	last := s.Grows(s.Saved("1.0.0").Last)

	s.Must(updater, "update", "--now", "--skip-backup")
	s.Serves("1.1.0")
	if live := s.Live(); live.Rows != live.Last || live.Last < last {
		t.Errorf("version 1.1.0 has %v; want the rows of 1.0.0 up to %d", live, last)
	}
	s.Refused("rollback", []string{"1.0.0", "backup.yaml", "teleport-update rollback 1.0.0 --force"}, updater, "rollback")
	s.Must(updater, "rollback", "--force")
	s.Serves("1.0.0")
	if live := s.Live(); live.Rows != live.Last || live.Last < last {
		t.Errorf("after a forced rollback version 1.0.0 has %v; want all rows up to %d", live, last)
	}
}
