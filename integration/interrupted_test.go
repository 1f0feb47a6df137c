//go:build hosts

package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/installer"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/internal/version"
)

func TestASwitchThatIsStoppedInMidWatchIsUndone(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0")
	s.release(release.Spec{Version: "1.1.0", Schema: 2})
	s.running("1.0.0")
	rows := s.database()
	s.wants("1.1.0")
	update := s.midWatch("1.1.0")
	s.Must("systemctl", "stop", switchUnits)

	r, err := update.Wait()
	if err != nil {
		t.Fatal(err)
	}
	const says = "the updater was told to stop in the middle of it (terminated signal received)"
	if r.Code != 1 || !strings.Contains(r.Stderr, says) || !strings.Contains(r.Stderr, "the agent is on version 1.0.0") {
		t.Errorf("exit code %d; want 1 and %q:\n%s", r.Code, says, r.Stderr)
	}
	s.serves("1.0.0")
	s.lost(rows, "1.0.0")
	s.tidy()
	if r := s.status(); r.State != installer.StateIdle || text(r.LastResult) != "interrupted" || !strings.Contains(text(r.LastError), says) || r.FailedVersion != nil {
		t.Errorf("status: %s, last result %s, error %s, failed %s", r.State, text(r.LastResult), text(r.LastError), text(r.FailedVersion))
	}

	// It is not the version's fault.
	if code := s.tick(); code != 0 {
		t.Errorf("the next tick ends with %d", code)
	}
	s.serves("1.1.0")
}

func TestASwitchThatIsKilledInMidWatchIsWatchedAgain(t *testing.T) {
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
			s.release(release.Spec{Version: "1.0.0", Variant: tc.old})
			s.sound("1.1.0")
			s.running("1.0.0")
			before := s.seen()
			s.wants("1.1.0")
			s.killedInMidWatch("1.1.0")
			if r := s.status(); r.State != installer.StateNeedsAttention || r.OpenTransaction == nil || !strings.Contains(r.Explanation, "a switch to 1.1.0 was cut off") {
				t.Errorf("status: %s, %s", r.State, r.Explanation)
			}

			if main := s.pid(); tc.drop != "" && main != before.pid {
				t.Fatalf("the main process is %s; the test wants it to be the old one, %s", main, before.pid)
			}
			from := s.seen()
			if code := s.tick(); code != 0 {
				t.Errorf("the next tick ends with %d", code)
			}
			s.serves("1.1.0")
			s.switched(1, "1.1.0")
			if got := from.became(s.seen()); got != inPeace {
				t.Errorf("the agent was %s by the second watch", got)
			}
			if drains := s.Exists("/proc/" + before.pid); drains != (tc.old == stamp.Drains) {
				t.Errorf("the old process is there: %v", drains)
			}
			if r := s.status(); r.State != installer.StateIdle || text(r.LastResult) != "succeeded" {
				t.Errorf("status: %s, last result %s", r.State, text(r.LastResult))
			}
			if log := s.Log("teleport-update.service"); !strings.Contains(log, "closing a switch that was cut off to=1.1.0") || !strings.Contains(log, "the agent holds version=1.1.0") {
				t.Errorf("the tick does not say what it did:\n%s", log)
			}
		})
	}
}

// It is watched again once, not for ever: something may kill it each time.
func TestASwitchThatIsKilledInItsSecondWatchIsUndone(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0", "1.1.0")
	s.running("1.0.0")
	s.wants("1.1.0")
	s.killedInMidWatch("1.1.0")
	s.killedInSecondWatch()
	s.Must(updater, "recover")
	s.serves("1.0.0")
	s.tidy()
	if r := s.status(); text(r.LastResult) != "interrupted" || r.FailedVersion != nil {
		t.Errorf("status: last result %s, failed %s", text(r.LastResult), text(r.FailedVersion))
	}
}

// From the moment a second watch has proven the version, there is only forward.
func TestASwitchThatIsKilledAfterItsSecondWatchIsFinished(t *testing.T) {
	s := newScene(t)
	s.Put(s.program(endat), "/root/endat")
	s.sound("1.0.0", "1.1.0")
	s.running("1.0.0")
	s.wants("1.1.0")
	s.killedInMidWatch("1.1.0")
	s.killedBefore("updates.yaml", "recover")
	if got := s.phase(); got != "proven" {
		t.Errorf("when updates.yaml was about to be written the journal said %q", got)
	}
	s.Must(updater, "recover")
	s.serves("1.1.0")
}

// Whether the agent ran is found out once after a boot. Whoever is killed later, with
// the agent stopped to be started anew, has the next run start it.
func TestAnUndoingThatIsKilledAfterABootHasTheAgentStarted(t *testing.T) {
	s := newScene(t)
	s.migratingTo("1.1.0")
	s.cutInMidWatch("1.1.0")
	host.Wait(t, patience, func() error { return s.executes(store + "/1.0.0/bin/teleport") })
	boot := strings.TrimSpace(s.Must("cat", "/proc/sys/kernel/random/boot_id"))
	noMore := s.watchesLast()
	s.Must("systemd-run", "--unit=again", "--collect", updater, "recover")
	host.Wait(t, patience, func() error {
		if journal := s.Read(store + "/journal.json"); !strings.Contains(journal, boot) {
			return fmt.Errorf("the journal does not tell of this boot, %s:\n%s", boot, journal)
		}
		return nil
	})
	s.Must("systemctl", "kill", "--signal=KILL", "again.service")
	noMore()
	s.Must("systemctl", "stop", "teleport")
	s.Must(updater, "recover")
	s.serves("1.0.0")
}

// killedBefore runs a command of the updater, and kills it before its first call
// that changes a file with this in its path.
func (s *scene) killedBefore(path string, args ...string) {
	s.t.Helper()
	out := s.Must(append([]string{"/root/endat", "-before", path, updater}, args...)...)
	var report report
	if err := json.Unmarshal([]byte(out), &report); err != nil || !report.Killed {
		s.t.Fatalf("%v was not killed before %s: %v, %s", args, path, err, out)
	}
}

func TestASwitchThatIsKilledWhileABadVersionIsWatched(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0")
	s.release(release.Spec{Version: "1.1.0", Variant: stamp.CrashLoops})
	s.running("1.0.0")
	rows := s.database()
	s.wants("1.1.0")
	s.killedInMidWatch("1.1.0")
	s.tick()
	s.serves("1.0.0")
	s.backsOff("1.1.0", 1, time.Hour)
	s.lost(rows, "1.0.0")
	s.tidy()
}

// Whatever it was doing when it was killed, the next run brings it to an end.
func TestASwitchThatIsKilledInAnyPhase(t *testing.T) {
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
			s.sound("1.0.0")
			s.release(release.Spec{Version: "1.1.0", Variant: tc.new, CrashAfter: 500 * time.Millisecond})
			s.running("1.0.0")
			s.heavy()
			rows := s.database()
			s.wants("1.1.0")
			noMore := s.watchesLast()
			update := s.Background(host.Command{Args: []string{updater, "update"}})
			s.reaches(update, tc.phase)
			s.signals(syscall.SIGKILL)
			noMore()
			s.ends(update, 1)
			if s.phase() == "" {
				t.Fatal("the journal is gone, although the switch was killed")
			}

			s.tick()
			if tc.new == stamp.Sound {
				s.serves("1.1.0")
			} else {
				s.serves("1.0.0")
				s.backsOff("1.1.0", 1, time.Hour)
			}
			s.lost(rows, "")
			s.tidy()
		})
	}
}

func TestACommandThatIsInterruptedLeavesTheSwitchAlone(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0", "1.1.0")
	s.running("1.0.0", "--health-window", longer)
	s.wants("1.1.0")
	// To a file, which the switch may keep open longer than the command.
	update := s.Background(host.Command{Args: []string{"sh", "-c", "exec " + updater + " update >/tmp/said 2>&1"}})
	s.watched("1.1.0")
	goOn := s.pauses()
	if err := update.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	s.ends(update, 1)
	if said := s.Read("/tmp/said"); !strings.Contains(said, "Switch the Teleport agent to 1.1.0: this goes on in teleport-update-switch-") ||
		!strings.Contains(said, "(interrupt signal received)") {
		t.Errorf("the command does not say that the switch goes on:\n%s", said)
	}
	goOn()
	s.closed()
	s.serves("1.1.0")
}

// After a power cut whose repair at boot did not happen, systemd has started the
// version that was never proven.
func TestAPowerCutWithoutTheRepairAtBoot(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0")
	s.release(release.Spec{Version: "1.1.0", Schema: 2})
	s.running("1.0.0")
	rows := s.database()
	s.wants("1.1.0")
	s.midWatch("1.1.0")
	s.Must("systemctl", "mask", "--now", "teleport-update-recover.service")
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.watched("1.1.0")

	s.set(find.Answer{Version: "1.1.0", Edition: version.OSS})
	if code := s.tick(); code != 0 {
		t.Errorf("the tick that closes the switch ends with %d", code)
	}
	s.serves("1.0.0")
	s.lost(rows, "1.0.0")
	if r := s.status(); text(r.LastResult) != "interrupted" || r.FailedVersion != nil {
		t.Errorf("status: last result %s, failed %s", text(r.LastResult), text(r.FailedVersion))
	}
}
