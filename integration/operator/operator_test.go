//go:build hosts

package operator

import (
	"syscall"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
	"teleport-update/internal/version"
)

// Whether the agent is to run is the operator's to say, also in the middle of a
// transaction and while it is undone.

// The next run stops the agent for what it puts back. It is not the one to say
// that it stays down.
func TestAnAgentThatIsStartedBeforeTheNextRunUndoesATransaction(t *testing.T) {
	t.Parallel()
	t.Run("and was stopped during the watch", func(t *testing.T) {
		s := newScene(t)
		s.Sound("1.0.0", "1.1.0")
		s.RunsOn("1.0.0")
		s.Wants("1.1.0")
		update := s.MidWatch("1.1.0")
		backup, second := store+"/1.0.0/backup", store+"/rollback"
		s.Must("mv", backup, "/root/backup")
		s.Must("mv", second, "/root/second")
		s.Must("systemctl", "stop", "teleport")
		s.Ends(update, 4)
		s.Down("after an undoing that failed")

		s.Must("mv", "/root/backup", backup)
		s.Must("mv", "/root/second", second)
		s.Must("systemctl", "start", "teleport")
		s.Set(find.Answer{Version: "1.1.0", Edition: version.OSS})
		if code := s.Tick(); code != 0 {
			t.Errorf("the tick that begins again ends with %d", code)
		}
		s.Serves("1.0.0")
	})
	t.Run("and was down when the switch began", func(t *testing.T) {
		s := newScene(t)
		s.Sound("1.0.0")
		s.Release(release.Spec{Version: "1.1.0", Schema: 2})
		s.RunsOn("1.0.0")
		s.Wants("1.1.0")
		s.KilledInMidWatch("1.1.0")
		s.EditJournal(func(j map[string]any) { j["agent"].(map[string]any)["state"] = "stopped" })
		s.Set(find.Answer{Version: "1.1.0", Edition: version.OSS})
		if code := s.Tick(); code != 0 {
			t.Errorf("the next tick ends with %d", code)
		}
		s.Serves("1.0.0")
		s.Whole("the database", s.Live(), 1)
	})
	t.Run("and was down when the links were changed", func(t *testing.T) {
		s := newScene(t)
		s.Sound("1.0.0", "1.1.0")
		s.RunsOn("1.0.0")
		s.Wants("1.1.0")
		s.KilledInMidWatch("1.1.0")
		s.EditJournal(func(j map[string]any) {
			j["phase"] = "begun"
			j["reached"] = "stop"
			j["agent"].(map[string]any)["state"] = "stopped"
			j["database"] = map[string]any{"plan": "keep"}
		})
		s.Set(find.Answer{Version: "1.1.0", Edition: version.OSS})
		if code := s.Tick(); code != 0 {
			t.Errorf("the next tick ends with %d", code)
		}
		s.Serves("1.0.0")
	})
}

func TestAnAgentThatAPersonStopsWhileTheOldVersionIsWatchedStaysStopped(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Variant: stamp.CrashLoops, CrashAfter: 500 * time.Millisecond})
	s.RunsOn("1.0.0")
	s.Wants("1.1.0")
	noMore := s.WatchesLast()
	update := s.Background(host.Command{Args: []string{updater, "update"}})
	s.Reaches(update, "restored")
	host.Wait(t, patience, func() error { return s.Executes(programs + "/1.0.0/bin/teleport") })
	s.Must("systemctl", "stop", "teleport")
	s.Ends(update, 1)
	noMore()
	s.Linked("1.0.0")
	s.Down("after the rollback")
	s.BacksOff("1.1.0", 1, time.Hour)
	if code := s.Tick(); code != 0 {
		t.Errorf("the next tick ends with %d", code)
	}
	s.Down("after the next tick")
}

func TestAnAgentThatAPersonStopsDuringTheBackupStaysStopped(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.Writes("delete", 0)
	s.RunsOn("1.0.0")
	s.Heavy()
	s.Wants("1.1.0")
	update := s.Background(host.Command{Args: []string{updater, "update"}})
	s.Reaches(update, "begun")
	s.Signals(syscall.SIGSTOP)
	if got := s.Phase(); got != "begun" {
		t.Fatalf("the backup is over: the journal says %q", got)
	}
	s.Must("systemctl", "stop", "teleport")
	s.Must("systemctl", "kill", "--signal=CONT", scenes.SwitchUnits)
	s.Ends(update, 4) // the agent is down, and enabled at boot
	s.Linked("1.1.0")
	s.Down("after the update")
	if r := s.Status(); !r.Unproven {
		t.Error("a version that was never seen to run counts as proven")
	}
}
