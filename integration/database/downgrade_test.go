//go:build hosts

package database

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"teleport-update/installer/decision"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// migrating builds releases of which each one has a schema of its own, beginning
// with 1.
func (s *scene) migrating(versions ...string) {
	s.T.Helper()
	for i, v := range versions {
		s.Release(release.Spec{Version: v, Schema: i + 1})
	}
}

// unfit are the ways in which what 1.0.0 left cannot be returned to. The scripts
// run in its folder.
var unfit = []struct{ name, script, says string }{
	{"missing", "rm -r backup", "1.0.0/backup does not exist"},
	{"incomplete", "rm backup/backup.yaml", "1.0.0/backup has no backup.yaml: it was restored already, is of the past, or was not finished"},
	{"without its database", "rm backup/sqlite.db", "1.0.0/backup is not complete: there is no sqlite.db"},
	{"of another proxy", "sed -i 's|proxy: .*|proxy: other.example.com|' backup/backup.yaml", `belongs to the cluster at "other.example.com"`},
	{"of another version", "sed -i 's|  version: .*|  version: 0.9.0|' backup/backup.yaml", `is of version "0.9.0"`},
	{"of another edition", "sed -i 's|edition: .*|edition: enterprise|' backup/backup.yaml", `is of edition "enterprise"`},
	{"too old", "sed -i 's|creation_time: .*|creation_time: \"2024-01-01T00:00:00Z\"|' backup/backup.yaml", "more than the 30 days allowed; the certificates in it may have expired"},
	// Days, because an age in seconds is another one in the next run.
	{"older than a person allows", "sed -i 's|^status:|  backup:\\n    max_age: 1h0m0s\\n&|' ../updates.yaml;" +
		"sed -i \"s|creation_time: .*|creation_time: \\\"$(date -u -d '60 hours ago' +%FT%TZ)\\\"|\" backup/backup.yaml", "is 2 days old, more than the 1h0m0s allowed"},
	{"from the future", "sed -i 's|creation_time: .*|creation_time: \"2099-01-01T00:00:00Z\"|' backup/backup.yaml", "which is in the future"},
	{"of unknown age", "sed -i 's|creation_time: .*|creation_time: yesterday|' backup/backup.yaml", "creation_time"},
	{"with a bit turned", "printf X | dd of=backup/sqlite.db bs=1 seek=5000 conv=notrunc", "is damaged: "},
	{"cut short", "truncate -s -4096 backup/sqlite.db", "is damaged: "},
	{"with a WAL beside it", "echo frames >backup/sqlite.db-wal", "a journal lies beside sqlite.db"},
	{"in a tree without sha256", "rm sha256", "its folder 1.0.0 is incomplete (sha256 is missing)"},
	{"in a tree without edition", "rm edition", "its folder 1.0.0 is incomplete (edition is missing)"},
	{"gone with its tree", "rm -r ../1.0.0 " + programs + "/1.0.0", "it is not on this host any more, and neither is the database it had"},
}

// RFD 0169 §Downgrades: "If the backup is invalid, we refuse to downgrade."
func TestADowngradeWithoutItsDatabaseIsRefused(t *testing.T) {
	s := newScene(t)
	s.migrating("1.0.0", "1.1.0")
	s.Writes("wal", 100)
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Grows(10)
	s.Updates("1.1.0")
	s.Must("cp", "-a", store+"/1.0.0", store+"/updates.yaml", "/root/")
	s.Must("cp", "-a", programs+"/1.0.0", "/root/programs")
	heal := "cd " + store + "; rm -rf 1.0.0 " + programs + "/1.0.0; cp -a /root/1.0.0 /root/updates.yaml .; cp -a /root/programs " + programs + "/1.0.0"
	rows, pid := s.LastRow(), s.PID()
	released := s.countReleases()

	s.Wants("1.0.0")
	for i, tc := range unfit {
		s.Must("sh", "-ec", "cd "+store+"/1.0.0; "+tc.script)
		if i == 0 {
			// The timer's unit fails once for a target, not every ten minutes.
			before := s.Look()
			for i, want := range []int{1, 0, 0} {
				if code := s.Tick(); code != want {
					t.Errorf("tick %d ends with %d; want %d", i, code, want)
				}
			}
			s.Unchanged(before, s.Look())
			if log := s.Log("teleport-update.service"); strings.Count(log, "the transaction stays refused") != 2 || !strings.Contains(log, tc.says) {
				t.Errorf("the timer's runs do not say why they did nothing:\n%s", log)
			}
		}
		says := []string{"version 1.0.0", tc.says, "; nothing was changed: "}
		s.Refused(tc.name+", dry run", says, updater, "update", "--dry-run")
		s.Refused(tc.name, says, updater, "update", "--now")
		s.DryRunAgrees(updater, "update", "--now")
		if code := s.Tick(); code != 0 {
			t.Errorf("%s: the tick after a command by hand ends with %d", tc.name, code)
		}
		if r := s.Status(); r.State != decision.NeedsAttention || scenes.Text(r.RefusedVersion) != "1.0.0" || !strings.Contains(r.Explanation, tc.says) ||
			scenes.Text(r.LastResult) != "failed" || r.FailedVersion != nil {
			t.Errorf("%s: status: %s, %s; refused %s, last result %s", tc.name, r.State, r.Explanation, scenes.Text(r.RefusedVersion), scenes.Text(r.LastResult))
		}
		s.Refused(tc.name+", by hand", []string{"version 1.0.0", tc.says, "; nothing was changed: "}, updater, "rollback", "1.0.0")
		s.Must("sh", "-ec", heal)
	}
	if s.PID() != pid {
		t.Error("the agent's process is another one")
	}
	if n := released(); n != 0 {
		t.Errorf("%d times something was asked for that could only be refused", n)
	}

	if code := s.Tick(); code != 0 {
		t.Errorf("the tick that may go back ends with %d", code)
	}
	s.Serves("1.0.0")
	if saved := s.Saved("1.1.0"); saved.Last <= rows {
		t.Errorf("version 1.1.0 left %v; it had %d rows before all this", saved, rows)
	}
	if r := s.Status(); r.State != decision.Idle || r.RefusedVersion != nil || scenes.Text(r.LastResult) != "succeeded" {
		t.Errorf("status after the downgrade: %s, refused %s, last result %s", r.State, scenes.Text(r.RefusedVersion), scenes.Text(r.LastResult))
	}
}

// countReleases makes releases unavailable, and counts who asks for one.
func (s *scene) countReleases() (asked func() int64) {
	var n atomic.Int64
	s.Breaks(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/releases/") {
			return false
		}
		n.Add(1)
		http.Error(w, "no releases today", http.StatusServiceUnavailable)
		return true
	})
	return n.Load
}

// RFD 0169 §Downgrades, invariant 1: "Broken rollbacks can always be reverted by
// reversing the rollback exactly." So what is left must be complete to the row.
func TestADowngradeLosesNoRowAndNeedsNoNetwork(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"wal", "delete"} {
		t.Run(mode, func(t *testing.T) {
			s := newScene(t)
			s.migrating("1.0.0", "1.1.0")
			s.Writes(mode, 1000)
			s.RunsOn("1.0.0", "--health-window", "1s")
			before := s.Grows(300)
			s.Updates("1.1.0")
			s.Grows(1000)
			released, stopped := s.countReleases(), s.Seen().PID

			s.Wants("1.0.0")
			if code := s.Tick(); code != 0 {
				t.Errorf("the timer's run ends with %d", code)
			}
			s.Serves("1.0.0")
			first, left := s.Saved("1.0.0"), s.Saved("1.1.0")
			s.Whole("what version 1.1.0 left", left, 2)
			if said := s.SaidLast(stopped); left.Last != said {
				t.Errorf("version 1.1.0 committed row %d, and row %d is the last that it left", said, left.Last)
			}
			s.Grows(first.Last)
			live := s.Live()
			s.Whole("the database", live, 1)
			s.SameRows("1.0.0", first.Last)
			if live.ByVersion["1.1.0"] != 0 || first.Last < before {
				t.Errorf("version 1.0.0 committed row %d, left row %d, and has %v", before, first.Last, live)
			}

			// Reversed exactly.
			stopped = s.Seen().PID
			s.Wants("1.1.0")
			if code := s.Tick(); code != 0 {
				t.Errorf("the timer's run ends with %d", code)
			}
			s.Serves("1.0.0") // it was there within the hour: only a person takes it there again
			s.Must(updater, "update")
			s.Serves("1.1.0")
			if said, again := s.SaidLast(stopped), s.Saved("1.0.0"); again.Last != said {
				t.Errorf("version 1.0.0 committed row %d, and row %d is the last that it left", said, again.Last)
			}
			s.Grows(left.Last)
			live = s.Live()
			s.Whole("the database", live, 2)
			if live.ByVersion["1.0.0"] != left.ByVersion["1.0.0"] || live.ByVersion["1.1.0"] <= left.ByVersion["1.1.0"] {
				t.Errorf("version 1.1.0 has %v again; it left %v", live, left)
			}
			if n := released(); n != 0 {
				t.Errorf("%d times a release was asked for that is on disk", n)
			}
			t.Logf("left by 1.0.0: %d rows; by 1.1.0: %d", first.Rows, left.Rows)
		})
	}
}

// systemd takes a process that another one handed over to, if it learns of it
// while that one lives, for no child of its own, and kills it at once when it is
// stopped, unless it is made to look again.
func TestAnAgentThatWasReloadedHasItsTimeToStop(t *testing.T) {
	s := newScene(t)
	s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\n"+scenes.UntilTakenOver+"\n")
	s.Release(release.Spec{Version: "1.0.0", Variant: stamp.Drains, DrainFor: 2 * time.Second})
	s.Release(release.Spec{Version: "1.1.0", Variant: stamp.HangsOnStop, Unit: release.Unit{StopTimeout: time.Second}})
	s.RunsOn("1.0.0", "--health-window", "1s")
	old := s.Seen().PID
	s.Updates("1.1.0")
	host.Wait(t, patience, func() error {
		if s.Exists("/proc/" + old) {
			return fmt.Errorf("process %s has not drained yet", old)
		}
		return nil
	})
	if log := s.Log("teleport.service"); !strings.Contains(log, "which is not our child") {
		t.Errorf("systemd has not taken the agent for a stranger:\n%s", log)
	}
	s.Must(updater, "rollback")
	s.Serves("1.0.0")
	log := s.Log("teleport.service")
	if !strings.Contains(log, "State 'stop-sigterm' timed out. Killing.") {
		t.Errorf("the agent was not given its second to stop:\n%s", log)
	}
}

// A process of somebody else's that has the database open would write to a file
// that is being replaced.
func TestADowngradeWaitsForNobodyWhoReadsTheDatabase(t *testing.T) {
	s := newScene(t)
	s.migrating("1.0.0", "1.1.0")
	s.Writes("wal", 200)
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Updates("1.1.0")
	reader := s.Background(host.Command{Args: []string{"sqlite3", scenes.LiveFile, "SELECT count(*) FROM rows; PRAGMA data_version", ".shell touch /root/reads; sleep 1000"}})
	host.Wait(t, patience, func() error {
		if !s.Exists("/root/reads") {
			return fmt.Errorf("nobody reads yet")
		}
		return nil
	})
	last := s.Grows(100)
	s.Fails(1, "is open in another process", updater, "rollback")
	s.Serves("1.1.0")
	s.Grows(last)
	live := s.Live()
	s.Whole("the database", live, 2)
	if live.Last <= last {
		t.Errorf("row %d was committed, the database holds %v", last, live)
	}
	if r := s.Status(); scenes.Text(r.LastResult) != "failed" || r.OpenTransaction != nil {
		t.Errorf("status: last result %s, open transaction %v", scenes.Text(r.LastResult), r.OpenTransaction)
	}

	if err := reader.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	host.Wait(t, patience, func() error {
		if s.Try("pgrep", "-x", "sqlite3").Code == 0 {
			return fmt.Errorf("the reader is not gone yet")
		}
		return nil
	})
	s.Must(updater, "rollback")
	s.Serves("1.0.0")
	s.Whole("the database", s.Live(), 1)
}

func TestADowngradeOfAHostWithoutADatabaseIsAllowed(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.Wants("1.1.0")
	s.Enable() // the agent never ran
	s.Wants("1.0.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the timer's run ends with %d", code)
	}
	s.Linked("1.0.0")
	s.Must("systemctl", "start", "teleport")
	s.Serves("1.0.0")
}

func TestAPersonMayInsistOnADowngrade(t *testing.T) {
	t.Parallel()
	t.Run("and the older version can work with the database", func(t *testing.T) {
		s := newScene(t)
		s.Sound("1.0.0", "1.1.0")
		s.Writes("wal", 500)
		s.RunsOn("1.0.0", "--health-window", "1s")
		s.Updates("1.1.0")
		s.Must("rm", "-r", store+"/1.0.0/backup")
		s.Refused("rollback", []string{"1.0.0/backup does not exist", "teleport-update rollback 1.0.0 --force"}, updater, "rollback")
		stopped := s.Seen().PID
		s.Grows(200)
		s.Must(updater, "rollback", "--force")
		s.Serves("1.0.0")
		s.carriedOver("1.1.0", stopped)
	})
	t.Run("and the older version cannot", func(t *testing.T) {
		s := newScene(t)
		s.migrating("1.0.0", "1.1.0")
		s.Writes("wal", 500)
		s.RunsOn("1.0.0", "--health-window", "1s")
		s.Updates("1.1.0")
		s.Must("rm", "-r", store+"/1.0.0/backup")
		last := s.Grows(200)
		s.Fails(1, "version 1.0.0 was not healthy and was rolled back", updater, "rollback", "--force")
		s.Serves("1.1.0")
		left := s.Saved("1.1.0")
		s.Grows(left.Last)
		live := s.Live()
		s.Whole("the database", live, 2)
		if left.Last < last {
			t.Errorf("row %d was committed, the backup holds %v", last, left)
		}
		s.SameRows("1.1.0", left.Last)
	})
	t.Run("by enabling again", func(t *testing.T) {
		s := newScene(t)
		s.Sound("1.0.0", "1.1.0")
		s.Writes("wal", 500)
		s.RunsOn("1.1.0", "--health-window", "1s")
		s.Grows(200)
		stopped := s.Seen().PID
		s.Wants("1.0.0")
		s.Refused("update", []string{"not on this host any more", "--allow-downgrade"}, updater, "update")
		s.Refused("enable", []string{"not on this host any more", "--allow-downgrade"}, updater, "enable")
		s.Must(updater, "enable", "--allow-downgrade")
		s.Serves("1.0.0")
		s.carriedOver("1.1.0", stopped)
	})
	t.Run("by enabling over an agent that was installed by hand", func(t *testing.T) {
		s := newScene(t)
		s.MkdirAll(store)
		s.Sound("1.0.0")
		s.Writes("wal", 500)
		s.RunPreExisting("1.1.0", scenes.PreExistingAgents["by hand"])
		stopped := s.Seen().PID
		s.Grows(200)
		s.Wants("1.0.0")
		s.Refused("enable", []string{"this host runs version 1.1.0 (/usr/local/bin/teleport), newer than version 1.0.0", "nothing was changed", "--allow-downgrade"},
			updater, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL)
		s.Enable("--allow-downgrade", "--health-window", "1s")
		s.Serves("1.0.0")
		s.carriedOver("original", stopped)
	})
}

// carriedOver asserts that the database of the version that was left went along
// whole, and that all of it is in its backup: the agent was stopped before.
func (s *scene) carriedOver(left, stopped string) {
	s.T.Helper()
	saved, said := s.Saved(left), s.SaidLast(stopped)
	s.Whole("the backup", saved, 1)
	if saved.Last != said {
		s.T.Errorf("row %d was the last that was committed, %d is the last in the backup", said, saved.Last)
	}
	s.Grows(saved.Last)
	s.Whole("the database", s.Live(), 1)
	s.SameRows(left, saved.Last)
	if log := s.Logged(); !strings.Contains(log, fmt.Sprintf("to=%s/%s/backup", store, left)) {
		s.T.Errorf("the journal does not say where the backup is:\n%s", log)
	}
}
