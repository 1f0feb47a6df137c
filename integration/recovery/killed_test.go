//go:build hosts

package recovery

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// byItself is a host whose timer is disabled: whatever recovers does so by itself.
func byItself(t *testing.T) *scene {
	s := newScene(t)
	s.migratingTo("1.1.0")
	s.Must("systemctl", "disable", "--now", "teleport-update.timer")
	s.RecoversKilled()
	return s
}

// Nobody but the updater starts an agent that it has stopped.
func TestAnUpdaterThatIsKilledBetweenStopAndStartIsRecoveredAtOnce(t *testing.T) {
	s := byItself(t)
	s.Updates("1.1.0")
	s.Heavy()
	s.Wants("1.0.0")
	update := s.Background(host.Command{Args: []string{updater, "update"}})
	for s.Phase() == "" || s.Exists("/sys/fs/cgroup/system.slice/teleport.service") {
		select {
		case <-update.Done():
			t.Fatal("the transaction ended without a stop of the agent")
		case <-time.After(time.Millisecond):
		}
	}
	s.Signals(syscall.SIGKILL)
	r, err := update.Wait()
	s.Check(err)
	if r.Code != 1 || !strings.Contains(r.Stderr, "was killed by SIGKILL") {
		t.Errorf("the command that followed ends with %d; want 1, and how the main process ended:\n%s", r.Code, r.Stderr)
	}
	s.Serves("1.1.0")
	s.Closed()
	s.Whole("the database", s.Live(), 2)
}

// In mid-watch the new version is watched once more, whatever killed the updater.
func TestAnUpdaterThatIsKilledInMidWatchIsRecoveredAtOnce(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(s *scene, unit string){
		"by SIGKILL":         func(s *scene, unit string) { s.KillsMain(unit) },
		"for want of memory": func(s *scene, unit string) { s.Must("systemctl", "set-property", "--runtime", unit, "MemoryMax=1M") },
	} {
		t.Run(name, func(t *testing.T) {
			s := byItself(t)
			update := s.MidWatch("1.1.0")
			unit := strings.Fields(s.Must("systemctl", "list-units", "--plain", "--no-legend", scenes.SwitchUnits))[0]
			if name == "for want of memory" && s.Show(unit, "MemoryCurrent") == "[not set]" {
				t.Skip("this machine's kernel does not bound the memory of units")
			}
			// Others are killed before it where memory is short. (A container's systemd may be allowed to
			// ask for it and not to set it: the process says 0 then.)
			if score := s.Show(unit, "OOMScoreAdjust"); !strings.HasPrefix(score, "-") {
				t.Errorf("the updater's OOMScoreAdjust is %s", score)
			}
			kill(s, unit)
			r, err := update.Wait()
			s.Check(err)
			if r.Code != 1 || !strings.Contains(r.Stderr, "watching the agent once more") || !strings.Contains(r.Stderr, "was killed by SIGKILL") {
				t.Errorf("the command that followed ends with %d:\n%s", r.Code, r.Stderr)
			}
			s.Closed()
			s.Serves("1.1.0")
		})
	}
}

// systemd stops an updater that runs for far too long, and nothing is left open.
func TestAnUpdaterThatRunsTooLongLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	for name, deaf := range map[string]bool{"that obeys": false, "that hangs": true} {
		t.Run(name, func(t *testing.T) {
			s := byItself(t)
			update := s.MidWatch("1.1.0")
			unit := strings.Fields(s.Must("systemctl", "list-units", "--plain", "--no-legend", scenes.SwitchUnits))[0]
			limits := "[Service]\nRuntimeMaxSec=1\n"
			if deaf {
				limits += "KillSignal=SIGKILL\n"
			}
			s.Write("/run/systemd/system/"+unit+".d/zzzzz-limits.conf", limits)
			s.Must("systemctl", "daemon-reload")
			r, err := update.Wait()
			s.Check(err)
			if log := s.Log(unit); r.Code == 0 || !strings.Contains(log, "runtime time limit") {
				t.Errorf("the command that followed ends with %d:\n%s\n%s", r.Code, r.Stderr, log)
			}
			s.Closed()
			if deaf {
				s.Serves("1.1.0") // it was killed, and the recovery has watched the version once more
			} else {
				s.Serves("1.0.0")
			}
		})
	}
}

// An updater that ended by itself said why, and nothing is done after it.
func TestAnUpdaterThatEndsByItselfIsNotRecovered(t *testing.T) {
	s := byItself(t)
	s.Release(release.Spec{Version: "1.2.0", Variant: stamp.ExitsAtStart})
	s.Wants("1.2.0")
	if r := s.Try(updater, "update"); r.Code != 1 {
		t.Errorf("an update to a version that fails ends with %d", r.Code)
	}
	s.Serves("1.0.0")
	s.Wants("1.1.0")
	update := s.Background(host.Command{Args: []string{updater, "update"}})
	s.Watched("1.1.0")
	s.Signals(syscall.SIGSTOP)
	s.Must("chmod", "664", store+"/updates.yaml")
	s.Signals(syscall.SIGCONT)
	r, err := update.Wait()
	s.Check(err)
	if got := s.Phase(); r.Code != 4 || got != "proven" || strings.Contains(r.Stderr, "closing a transaction") {
		t.Errorf("it ends with %d, in the phase %q:\n%s", r.Code, got, r.Stderr)
	}
	s.Must("chmod", "600", store+"/updates.yaml")
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick ends with %d", code)
	}
	s.Serves("1.1.0")
}

// A host that shuts down is not worked on any more: its next boot does that.
func TestAPowerOffInMidWatchIsLeftToTheNextBoot(t *testing.T) {
	s := byItself(t)
	s.MidWatch("1.1.0")
	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	host.Wait(t, patience, func() error { return s.Executes(programs + "/1.0.0/bin/teleport") })
	if got := s.Phase(); got != "restored" {
		t.Errorf("after the boot the journal says %q", got)
	}
	s.recoveredFirst()
	s.Wants("1.0.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the first tick ends with %d", code)
	}
	s.Serves("1.0.0")
}

// What is removed of an older transaction that ended is not taken for one that was killed,
// even while another run is at work.
func TestTheRemovalOfAnEndedTransactionWaitsForNobody(t *testing.T) {
	s := byItself(t)
	s.Must("systemd-run", "--unit=teleport-update-switch-older", "--property=RemainAfterExit=yes",
		fmt.Sprintf("--property=ExecStopPost=%s recover", updater), "/bin/true")
	s.MidWatch("1.1.0")
	s.Must("systemctl", "stop", "teleport-update-switch-older.service")
	if got := s.Show("teleport-update-switch-older.service", "Result"); got != "success" {
		t.Errorf("the removal ends with %s", got)
	}
	if got := s.Phase(); got != "switched" {
		t.Errorf("the journal says %q", got)
	}
}
