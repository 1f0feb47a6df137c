//go:build hosts

package integration

import (
	"syscall"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/internal/version"
)

// Whether the agent is to run is the operator's to say, also in the middle of a
// switch and while it is undone.

func (s *scene) down(when string) {
	s.t.Helper()
	if state := s.Show("teleport", "ActiveState"); state != "inactive" {
		s.t.Errorf("%s the agent is %s; want it down", when, state)
	}
}

// The next run stops the agent for what it puts back. It is not the one to say
// that it stays down.
func TestAnAgentThatIsStartedBeforeTheNextRunUndoesASwitch(t *testing.T) {
	t.Run("and was stopped during the watch", func(t *testing.T) {
		s := newScene(t)
		s.sound("1.0.0", "1.1.0")
		s.running("1.0.0")
		s.wants("1.1.0")
		update := s.midWatch("1.1.0")
		backup := store + "/1.0.0/backup"
		s.Must("mv", backup, "/root/backup")
		s.Must("systemctl", "stop", "teleport")
		s.ends(update, 4)
		s.down("after an undoing that failed")

		s.Must("mv", "/root/backup", backup)
		s.Must("systemctl", "start", "teleport")
		s.set(find.Answer{Version: "1.1.0", Edition: version.OSS})
		if code := s.tick(); code != 0 {
			t.Errorf("the tick that begins again ends with %d", code)
		}
		s.serves("1.0.0")
	})
	t.Run("and was down when the switch began", func(t *testing.T) {
		s := newScene(t)
		s.sound("1.0.0")
		s.release(release.Spec{Version: "1.1.0", Schema: 2})
		s.running("1.0.0")
		s.wants("1.1.0")
		s.killedInMidWatch("1.1.0")
		s.editJournal(func(j map[string]any) { j["agent"].(map[string]any)["state"] = "stopped" })
		s.set(find.Answer{Version: "1.1.0", Edition: version.OSS})
		if code := s.tick(); code != 0 {
			t.Errorf("the next tick ends with %d", code)
		}
		s.serves("1.0.0")
		s.whole("the database", s.live(), 1)
	})
	t.Run("and was down when the links were changed", func(t *testing.T) {
		s := newScene(t)
		s.sound("1.0.0", "1.1.0")
		s.running("1.0.0")
		s.wants("1.1.0")
		s.killedInMidWatch("1.1.0")
		s.editJournal(func(j map[string]any) {
			j["phase"] = "begun"
			j["reached"] = "stop"
			j["agent"].(map[string]any)["state"] = "stopped"
			j["database"] = map[string]any{"plan": "keep"}
		})
		s.set(find.Answer{Version: "1.1.0", Edition: version.OSS})
		if code := s.tick(); code != 0 {
			t.Errorf("the next tick ends with %d", code)
		}
		s.serves("1.0.0")
	})
}

func TestAnAgentThatAPersonStopsWhileTheOldVersionIsWatchedStaysStopped(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0")
	s.release(release.Spec{Version: "1.1.0", Variant: stamp.CrashLoops, CrashAfter: 500 * time.Millisecond})
	s.running("1.0.0")
	s.wants("1.1.0")
	noMore := s.watchesLast()
	update := s.Background(host.Command{Args: []string{updater, "update"}})
	s.reaches(update, "restored")
	host.Wait(t, patience, func() error { return s.executes(store + "/1.0.0/bin/teleport") })
	s.Must("systemctl", "stop", "teleport")
	s.ends(update, 1)
	noMore()
	s.linked("1.0.0")
	s.down("after the rollback")
	s.backsOff("1.1.0", 1, time.Hour)
	if code := s.tick(); code != 0 {
		t.Errorf("the next tick ends with %d", code)
	}
	s.down("after the next tick")
}

func TestAnAgentThatAPersonStopsDuringTheBackupStaysStopped(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0", "1.1.0")
	s.writes("delete", 0)
	s.running("1.0.0")
	s.heavy()
	s.wants("1.1.0")
	update := s.Background(host.Command{Args: []string{updater, "update"}})
	s.reaches(update, "begun")
	s.signals(syscall.SIGSTOP)
	if got := s.phase(); got != "begun" {
		t.Fatalf("the backup is over: the journal says %q", got)
	}
	s.Must("systemctl", "stop", "teleport")
	s.Must("systemctl", "kill", "--signal=CONT", switchUnits)
	s.ends(update, 0)
	s.linked("1.1.0")
	s.down("after the update")
	if r := s.status(); !r.Unproven {
		t.Error("a version that was never seen to run counts as proven")
	}
}
