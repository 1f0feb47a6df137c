//go:build hosts

package recovery

import (
	"fmt"
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

func TestATransactionThatIsStoppedInMidWatchIsUndone(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Schema: 2})
	s.RunsOn("1.0.0")
	rows := s.Live()
	s.Wants("1.1.0")
	update := s.MidWatch("1.1.0")
	s.Must("systemctl", "stop", scenes.SwitchUnits)

	r, err := update.Wait()
	if err != nil {
		t.Fatal(err)
	}
	const says = "the updater was told to stop in the middle of it (terminated signal received)"
	if r.Code != 1 || !strings.Contains(r.Stderr, says) || !strings.Contains(r.Stderr, "the agent is on version 1.0.0") {
		t.Errorf("exit code %d; want 1 and %q:\n%s", r.Code, says, r.Stderr)
	}
	s.Serves("1.0.0")
	s.Lost(rows, "1.0.0")
	s.Tidy()
	if r := s.Status(); r.State != decision.Waiting || scenes.Text(r.LastResult) != "interrupted" || !strings.Contains(scenes.Text(r.LastError), says) || r.FailedVersion != nil {
		t.Errorf("status: %s, last result %s, error %s, failed %s", r.State, scenes.Text(r.LastResult), scenes.Text(r.LastError), scenes.Text(r.FailedVersion))
	}

	// It is not the version's fault.
	if code := s.Tick(); code != 0 {
		t.Errorf("the next tick ends with %d", code)
	}
	s.Serves("1.1.0")
}

func TestATransactionThatIsKilledInMidWatchIsWatchedAgain(t *testing.T) {
	t.Parallel()
	// The reload job is done before the new process has written the PID file, as
	// with the real agent: systemd keeps the old one for the main process.
	const late = "ExecReload=\nExecReload=/bin/sh -c \"sh /root/late &\"\n"
	const whenDone = "while [ \"$(systemctl is-active teleport)\" = reloading ]; do sleep 0.05; done; exec pkill -HUP -L -F /run/teleport.pid\n"
	for _, tc := range []struct {
		name string
		old  stamp.Variant
		drop string
	}{
		{name: "with an old process that has left", old: stamp.Sound},
		{name: "with an old process that drains", old: stamp.Drains},
		{name: "with an old process that drains and is the main process", old: stamp.Drains, drop: late},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t)
			if tc.drop != "" {
				s.Write("/root/late", whenDone)
				s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\n"+tc.drop)
			}
			s.Release(release.Spec{Version: "1.0.0", Variant: tc.old})
			s.Sound("1.1.0")
			s.RunsOn("1.0.0")
			before := s.Seen()
			s.Wants("1.1.0")
			s.KilledInMidWatch("1.1.0")
			if r := s.Status(); r.State != decision.NeedsAttention || r.OpenTransaction == nil || !strings.Contains(r.Explanation, "a transaction to 1.1.0 was cut off") {
				t.Errorf("status: %s, %s", r.State, r.Explanation)
			}

			if main := s.PID(); tc.drop != "" && main != before.PID {
				t.Fatalf("the main process is %s; the test wants it to be the old one, %s", main, before.PID)
			}
			from := s.Seen()
			if code := s.Tick(); code != 0 {
				t.Errorf("the next tick ends with %d", code)
			}
			s.Serves("1.1.0")
			s.Switched(1, "1.1.0")
			if got := from.Became(s.Seen()); got != scenes.InPeace {
				t.Errorf("the agent was %s by the second watch", got)
			}
			if drains := s.Exists("/proc/" + before.PID); drains != (tc.old == stamp.Drains) {
				t.Errorf("the old process is there: %v", drains)
			}
			if r := s.Status(); r.State != decision.Idle || scenes.Text(r.LastResult) != "succeeded" {
				t.Errorf("status: %s, last result %s", r.State, scenes.Text(r.LastResult))
			}
			if log := s.Log("teleport-update.service"); !strings.Contains(log, "closing a transaction that was cut off to=1.1.0") || !strings.Contains(log, "the agent is healthy version=1.1.0") {
				t.Errorf("the tick does not say what it did:\n%s", log)
			}
		})
	}
}

func TestATransactionThatIsKilledWhileABadVersionIsWatched(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Variant: stamp.CrashLoops})
	s.RunsOn("1.0.0")
	rows := s.Live()
	s.Wants("1.1.0")
	s.KilledInMidWatch("1.1.0")
	s.Tick()
	s.Serves("1.0.0")
	s.BacksOff("1.1.0", 1, time.Hour)
	s.Lost(rows, "1.0.0")
	s.Tidy()
}

// Whatever it was doing when it was killed, the next run brings it to an end.
func TestATransactionThatIsKilledInAnyPhase(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		phase string
		new   stamp.Variant
	}{
		{"begun", stamp.Sound},
		{"switched", stamp.Sound},
		{"rolling_back", stamp.CrashLoops},
		{"restored", stamp.CrashLoops},
	} {
		t.Run(tc.phase, func(t *testing.T) {
			s := newScene(t)
			s.Sound("1.0.0")
			s.Release(release.Spec{Version: "1.1.0", Variant: tc.new, CrashAfter: 500 * time.Millisecond})
			s.RunsOn("1.0.0")
			s.Heavy()
			rows := s.Live()
			s.Wants("1.1.0")
			noMore := s.WatchesLast()
			update := s.Background(host.Command{Args: []string{updater, "update"}})
			s.Reaches(update, tc.phase)
			s.Signals(syscall.SIGKILL)
			noMore()
			s.Ends(update, 1)
			if s.Phase() == "" {
				t.Fatal("the journal is gone, although the transaction was killed")
			}

			s.Tick()
			if tc.new == stamp.Sound {
				s.Serves("1.1.0")
			} else {
				s.Serves("1.0.0")
				s.BacksOff("1.1.0", 1, time.Hour)
			}
			s.Lost(rows, "")
			s.Tidy()
		})
	}
}

func TestACommandThatIsInterruptedLeavesTheTransactionAlone(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", scenes.Longer)
	s.Wants("1.1.0")
	// To a file, which the transaction may keep open longer than the command.
	update := s.Background(host.Command{Args: []string{"sh", "-c", "exec " + updater + " update >/tmp/said 2>&1"}})
	s.Watched("1.1.0")
	goOn := s.Pauses()
	if err := update.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	s.Ends(update, 1)
	if said := s.Read("/tmp/said"); !strings.Contains(said, "Switch the Teleport agent to 1.1.0: this goes on in teleport-update-switch-") ||
		!strings.Contains(said, "(interrupt signal received)") {
		t.Errorf("the command does not say that the transaction goes on:\n%s", said)
	}
	goOn()
	s.Closed()
	s.Serves("1.1.0")
}

// After a power cut whose repair at boot did not happen, systemd has started the
// version that was never proven.
func TestAPowerCutWithoutTheRepairAtBoot(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Schema: 2})
	s.RunsOn("1.0.0")
	rows := s.Live()
	s.Wants("1.1.0")
	s.MidWatch("1.1.0")
	s.Must("systemctl", "mask", "--now", "teleport-update-recover.service")
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Watched("1.1.0")

	s.Set(find.Answer{Version: "1.1.0", Edition: version.OSS})
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick that closes the transaction ends with %d", code)
	}
	s.Serves("1.0.0")
	s.Lost(rows, "1.0.0")
	if r := s.Status(); scenes.Text(r.LastResult) != "interrupted" || r.FailedVersion != nil {
		t.Errorf("status: last result %s, failed %s", scenes.Text(r.LastResult), scenes.Text(r.FailedVersion))
	}
}

// killedInSecondWatch begins a recovery and kills it while it watches the version
// once more.
func (s *scene) killedInSecondWatch() {
	s.T.Helper()
	noMore := s.WatchesLast()
	s.Must("systemd-run", "--unit=again", "--collect", updater, "recover")
	s.watchedAgain()
	s.KillsMain("again.service")
	noMore()
}

// watchedAgain waits until a second watch has begun: who is killed after it has
// read how long it is to watch is killed in mid-watch.
func (s *scene) watchedAgain() {
	s.T.Helper()
	host.Wait(s.T, patience, func() error {
		if journal := s.Read(store + "/journal.json"); !strings.Contains(journal, `"again": true`) {
			return fmt.Errorf("the journal does not tell of a second watch:\n%s", journal)
		}
		return nil
	})
}
