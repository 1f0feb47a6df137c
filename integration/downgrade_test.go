//go:build hosts

package integration

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"teleport-update/installer"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
)

// migrating builds releases of which each one has a schema of its own, beginning
// with 1.
func (s *scene) migrating(versions ...string) {
	s.t.Helper()
	for i, v := range versions {
		s.release(release.Spec{Version: v, Schema: i + 1})
	}
}

// unfit are the ways in which what 1.0.0 left cannot be returned to. The scripts
// run in its folder.
var unfit = []struct{ name, script, says string }{
	{"missing", "rm -r backup", "1.0.0/backup does not exist"},
	{"incomplete", "rm backup/backup.yaml", "1.0.0/backup was not finished: there is no backup.yaml"},
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
	{"gone with its tree", "rm -r ../1.0.0", "it is not on this host any more, and neither is the database it had"},
}

// RFD 0169 §Downgrades: "If the backup is invalid, we refuse to downgrade."
func TestADowngradeWithoutItsDatabaseIsRefused(t *testing.T) {
	s := newScene(t)
	s.migrating("1.0.0", "1.1.0")
	s.writes("wal", 100)
	s.running("1.0.0", "--health-window", "1s")
	s.grows(10)
	s.updates("1.1.0")
	s.Must("cp", "-a", store+"/1.0.0", store+"/updates.yaml", "/root/")
	heal := "cd " + store + "; rm -rf 1.0.0; cp -a /root/1.0.0 /root/updates.yaml ."
	rows, pid := s.lastRow(), s.pid()
	released := s.countReleases()

	s.wants("1.0.0")
	for i, tc := range unfit {
		s.Must("sh", "-ec", "cd "+store+"/1.0.0; "+tc.script)
		if i == 0 {
			// The timer's unit fails once for a target, not every ten minutes.
			before := s.look()
			for i, want := range []int{1, 0, 0} {
				if code := s.tick(); code != want {
					t.Errorf("tick %d ends with %d; want %d", i, code, want)
				}
			}
			s.Unchanged(before, s.look())
			if log := s.Log("teleport-update.service"); strings.Count(log, "the switch stays refused") != 2 || !strings.Contains(log, tc.says) {
				t.Errorf("the timer's runs do not say why they did nothing:\n%s", log)
			}
		}
		says := []string{"version 1.0.0", tc.says, "; nothing was changed: "}
		s.refused(tc.name+", dry run", says, updater, "update", "--dry-run")
		s.refused(tc.name, says, updater, "update", "--now")
		s.foretold(updater, "update", "--now")
		if code := s.tick(); code != 0 {
			t.Errorf("%s: the tick after a command by hand ends with %d", tc.name, code)
		}
		if r := s.status(); r.State != installer.StateNeedsAttention || text(r.RefusedVersion) != "1.0.0" || !strings.Contains(r.Explanation, tc.says) ||
			text(r.LastResult) != "failed" || r.FailedVersion != nil {
			t.Errorf("%s: status: %s, %s; refused %s, last result %s", tc.name, r.State, r.Explanation, text(r.RefusedVersion), text(r.LastResult))
		}
		s.refused(tc.name+", by hand", []string{"version 1.0.0", tc.says, "; nothing was changed: "}, updater, "rollback", "1.0.0")
		s.Must("sh", "-ec", heal)
	}
	if s.pid() != pid {
		t.Error("the agent's process is another one")
	}
	if n := released(); n != 0 {
		t.Errorf("%d times something was asked for that could only be refused", n)
	}

	if code := s.tick(); code != 0 {
		t.Errorf("the tick that may go back ends with %d", code)
	}
	s.serves("1.0.0")
	if saved := s.saved("1.1.0"); saved.Last <= rows {
		t.Errorf("version 1.1.0 left %v; it had %d rows before all this", saved, rows)
	}
	if r := s.status(); r.State != installer.StateIdle || r.RefusedVersion != nil || text(r.LastResult) != "succeeded" {
		t.Errorf("status after the downgrade: %s, refused %s, last result %s", r.State, text(r.RefusedVersion), text(r.LastResult))
	}
}

// countReleases makes releases unavailable, and counts who asks for one.
func (s *scene) countReleases() (asked func() int64) {
	var n atomic.Int64
	s.breaks(func(w http.ResponseWriter, r *http.Request) bool {
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
	for _, mode := range []string{"wal", "delete"} {
		t.Run(mode, func(t *testing.T) {
			s := newScene(t)
			s.migrating("1.0.0", "1.1.0")
			s.writes(mode, 1000)
			s.running("1.0.0", "--health-window", "1s")
			before := s.grows(300)
			s.updates("1.1.0")
			s.grows(1000)
			released, stopped := s.countReleases(), s.seen().pid

			s.wants("1.0.0")
			if code := s.tick(); code != 0 {
				t.Errorf("the timer's run ends with %d", code)
			}
			s.serves("1.0.0")
			first, left := s.saved("1.0.0"), s.saved("1.1.0")
			s.whole("what version 1.1.0 left", left, 2)
			if said := s.saidLast(stopped); left.Last != said {
				t.Errorf("version 1.1.0 committed row %d, and row %d is the last that it left", said, left.Last)
			}
			s.grows(first.Last)
			live := s.live()
			s.whole("the database", live, 1)
			s.sameRows("1.0.0", first.Last)
			if live.ByVersion["1.1.0"] != 0 || first.Last < before {
				t.Errorf("version 1.0.0 committed row %d, left row %d, and has %v", before, first.Last, live)
			}

			// Reversed exactly.
			stopped = s.seen().pid
			s.wants("1.1.0")
			if code := s.tick(); code != 0 {
				t.Errorf("the timer's run ends with %d", code)
			}
			s.serves("1.1.0")
			if said, again := s.saidLast(stopped), s.saved("1.0.0"); again.Last != said {
				t.Errorf("version 1.0.0 committed row %d, and row %d is the last that it left", said, again.Last)
			}
			s.grows(left.Last)
			live = s.live()
			s.whole("the database", live, 2)
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
	s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\n"+untilTakenOver+"\n")
	s.release(release.Spec{Version: "1.0.0", Variant: stamp.Drains, DrainFor: 2 * time.Second})
	s.release(release.Spec{Version: "1.1.0", Variant: stamp.HangsOnStop, Unit: release.Unit{StopTimeout: time.Second}})
	s.running("1.0.0", "--health-window", "1s")
	old := s.seen().pid
	s.updates("1.1.0")
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
	s.serves("1.0.0")
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
	s.writes("wal", 200)
	s.running("1.0.0", "--health-window", "1s")
	s.updates("1.1.0")
	reader := s.Background(host.Command{Args: []string{"sqlite3", liveFile, "SELECT count(*) FROM rows; PRAGMA data_version", ".shell touch /root/reads; sleep 1000"}})
	host.Wait(t, patience, func() error {
		if !s.Exists("/root/reads") {
			return fmt.Errorf("nobody reads yet")
		}
		return nil
	})
	last := s.grows(100)
	s.fails(1, "is open in another process", updater, "rollback")
	s.serves("1.1.0")
	s.grows(last)
	live := s.live()
	s.whole("the database", live, 2)
	if live.Last <= last {
		t.Errorf("row %d was committed, the database holds %v", last, live)
	}
	if r := s.status(); text(r.LastResult) != "failed" || r.OpenTransaction != nil {
		t.Errorf("status: last result %s, open transaction %v", text(r.LastResult), r.OpenTransaction)
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
	s.serves("1.0.0")
	s.whole("the database", s.live(), 1)
}

func TestADowngradeOfAHostWithoutADatabaseIsAllowed(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0", "1.1.0")
	s.wants("1.1.0")
	s.enable() // the agent never ran
	s.wants("1.0.0")
	if code := s.tick(); code != 0 {
		t.Errorf("the timer's run ends with %d", code)
	}
	s.linked("1.0.0")
	s.Must("systemctl", "start", "teleport")
	s.serves("1.0.0")
}

func TestAPersonMayInsistOnADowngrade(t *testing.T) {
	t.Run("and the older version can work with the database", func(t *testing.T) {
		s := newScene(t)
		s.sound("1.0.0", "1.1.0")
		s.writes("wal", 500)
		s.running("1.0.0", "--health-window", "1s")
		s.updates("1.1.0")
		s.Must("rm", "-r", store+"/1.0.0/backup")
		s.refused("rollback", []string{"1.0.0/backup does not exist", "teleport-update rollback 1.0.0 --force"}, updater, "rollback")
		stopped := s.seen().pid
		s.grows(200)
		s.Must(updater, "rollback", "--force")
		s.serves("1.0.0")
		s.carriedOver("1.1.0", stopped)
	})
	t.Run("and the older version cannot", func(t *testing.T) {
		s := newScene(t)
		s.migrating("1.0.0", "1.1.0")
		s.writes("wal", 500)
		s.running("1.0.0", "--health-window", "1s")
		s.updates("1.1.0")
		s.Must("rm", "-r", store+"/1.0.0/backup")
		last := s.grows(200)
		s.fails(1, "version 1.0.0 did not hold and was rolled back", updater, "rollback", "--force")
		s.serves("1.1.0")
		left := s.saved("1.1.0")
		s.grows(left.Last)
		live := s.live()
		s.whole("the database", live, 2)
		if left.Last < last {
			t.Errorf("row %d was committed, the backup holds %v", last, left)
		}
		s.sameRows("1.1.0", left.Last)
	})
	t.Run("by enabling again", func(t *testing.T) {
		s := newScene(t)
		s.sound("1.0.0", "1.1.0")
		s.writes("wal", 500)
		s.running("1.1.0", "--health-window", "1s")
		s.grows(200)
		stopped := s.seen().pid
		s.wants("1.0.0")
		s.refused("update", []string{"not on this host any more", "--allow-downgrade"}, updater, "update")
		s.refused("enable", []string{"not on this host any more", "--allow-downgrade"}, updater, "enable")
		s.Must(updater, "enable", "--allow-downgrade")
		s.serves("1.0.0")
		s.carriedOver("1.1.0", stopped)
	})
	t.Run("by enabling over an agent that was installed by hand", func(t *testing.T) {
		s := newScene(t)
		s.MkdirAll(store)
		s.sound("1.0.0")
		s.writes("wal", 500)
		s.runForeign("1.1.0", foreignAgents["by hand"])
		stopped := s.seen().pid
		s.grows(200)
		s.wants("1.0.0")
		s.refused("enable", []string{"this host runs version 1.1.0 (/usr/local/bin/teleport), newer than version 1.0.0", "nothing was changed", "--allow-downgrade"},
			updater, "enable", "--proxy", proxyAddress, "--template", templateURL)
		s.enable("--allow-downgrade", "--health-window", "1s")
		s.serves("1.0.0")
		s.carriedOver("original", stopped)
	})
}

// carriedOver asserts that the database of the version that was left went along
// whole, and that all of it is in its backup: the agent was stopped before.
func (s *scene) carriedOver(left, stopped string) {
	s.t.Helper()
	saved, said := s.saved(left), s.saidLast(stopped)
	s.whole("the backup", saved, 1)
	if saved.Last != said {
		s.t.Errorf("row %d was the last that was committed, %d is the last in the backup", said, saved.Last)
	}
	s.grows(saved.Last)
	s.whole("the database", s.live(), 1)
	s.sameRows(left, saved.Last)
	if log := s.told(); !strings.Contains(log, fmt.Sprintf("to=%s/%s/backup", store, left)) {
		s.t.Errorf("the journal does not say where the backup is:\n%s", log)
	}
}
