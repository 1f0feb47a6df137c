//go:build hosts

package units

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// A unit that stops or starts for 19 s holds up a job of the agent's for longer than a job waits for what nobody can name.
const (
	sidecar    = "[Unit]\nPartOf=teleport.service\nAfter=teleport.service\n[Service]\nExecStart=/bin/sleep infinity\nExecStop=/bin/sleep %d\n"
	stopsFirst = "systemd finishes jobs of other units first unit=teleport.service waits_for=sidecar.service"
)

// newSlowScene runs 1.1.0, with a database that 1.0.0 cannot read.
func newSlowScene(t *testing.T) *scene {
	s := newScene(t)
	s.Release(release.Spec{Version: "1.0.0", Schema: 1})
	s.Release(release.Spec{Version: "1.1.0", Schema: 2})
	s.RunsOn("1.0.0", "--health-window", scenes.Window)
	s.Updates("1.1.0")
	return s
}

// hasSidecar starts a unit that goes down with the agent, before it, and takes so many seconds for that.
func (s *scene) hasSidecar(seconds int) {
	s.T.Helper()
	s.Write("/etc/systemd/system/sidecar.service", fmt.Sprintf(sidecar, seconds))
	s.Must("systemctl", "daemon-reload")
	s.Must("systemctl", "start", "sidecar")
}

// The agent's stop waits for that of a unit that is ordered after it, as long as that takes.
func TestADependentThatStopsSlowlyHoldsUpNoChange(t *testing.T) {
	t.Run("a rollback", func(t *testing.T) {
		s := newSlowScene(t)
		s.hasSidecar(19)
		s.Must(updater, "rollback")
		s.Serves("1.0.0")
		s.Closed()
		s.areUp([]string{"sidecar.service"}, "after the rollback")
		if !strings.Contains(s.Logged(), stopsFirst) {
			t.Errorf("nothing says what the rollback waited for:\n%s", s.Logged())
		}
	})
	t.Run("a version that failed", func(t *testing.T) {
		s := newSlowScene(t)
		s.Release(release.Spec{Version: "1.2.0", Schema: 3, Variant: stamp.CrashLoops})
		s.hasSidecar(19)
		s.Wants("1.2.0")
		s.Fails(1, "version 1.2.0 was not healthy", updater, "update", "--now")
		s.Serves("1.1.0")
		s.Closed()
		s.areUp([]string{"sidecar.service"}, "after the version that failed")
	})
}

// The agent's start waits for that of a unit that it needs: any start of it would.
func TestAUnitThatStartsSlowlyHoldsUpNoChange(t *testing.T) {
	s := newSlowScene(t)
	s.Write("/etc/systemd/system/secrets.service", "[Service]\nType=oneshot\nExecStart=/bin/sleep 19\n")
	s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Unit]\nRequires=secrets.service\nAfter=secrets.service\n")
	s.Must("systemctl", "daemon-reload")
	s.Must(updater, "rollback")
	s.Serves("1.0.0")
	s.Closed()
}

// A unit that the agent only wants, and whose start never ends, holds up the agent's for five minutes, and no longer.
func TestAWantedUnitThatHangsIsNotWaitedForWithoutAnEnd(t *testing.T) {
	if os.Getenv("FAULTS") != "all" {
		t.Skip("this takes five minutes: `make test-nightly` runs it")
	}
	s := newSlowScene(t)
	s.Write("/etc/systemd/system/wanted.service", "[Service]\nType=oneshot\nExecStart=/bin/sleep infinity\n")
	s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Unit]\nWants=wanted.service\nAfter=wanted.service\n")
	s.Must("systemctl", "daemon-reload")
	s.Must(updater, "rollback")
	s.Serves("1.0.0")
	s.Closed()
	if said := s.Logged(); !strings.Contains(said, "the unit starts without others that it wants: their start does not end unit=teleport.service others=wanted.service") {
		t.Errorf("nothing says that a start was taken back:\n%s", said)
	}
}

// An updater that is killed while the stop that it asked for waits, or goes on, leaves a stop that systemd brings to
// its end: no agent that still serves then was left alone.
func TestAnUpdaterThatIsKilledWhileTheAgentIsToStop(t *testing.T) {
	for _, tc := range []struct {
		name  string
		slow  func(s *scene)
		stops string // the unit that is being stopped
		peace bool
	}{
		{"the stop waits", func(s *scene) { s.hasSidecar(5) }, "sidecar", true},
		{"the stop goes on", func(s *scene) {
			s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\nExecStop=/bin/sleep 5\n")
			s.Must("systemctl", "daemon-reload")
		}, "teleport", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSlowScene(t)
			s.RecoversKilled()
			tc.slow(s)
			before := s.Seen()
			rollback := s.Background(host.Command{Args: []string{updater, "rollback"}})
			host.Wait(t, patience, func() error {
				if got := s.Show(tc.stops+".service", "ActiveState"); got != "deactivating" {
					return fmt.Errorf("%s is %s", tc.stops, got)
				}
				return nil
			})
			s.Signals(syscall.SIGKILL)
			if _, err := rollback.Wait(); err != nil {
				t.Fatal(err)
			}
			host.Wait(t, patience, func() error {
				if phase := s.Phase(); phase != "" {
					return fmt.Errorf("the transaction is open: %s", phase)
				}
				if jobs := s.Must("systemctl", "list-jobs"); !strings.Contains(jobs, "No jobs") {
					return fmt.Errorf("systemd is not through:\n%s", jobs)
				}
				return nil
			})
			s.Serves("1.1.0")
			s.Closed()
			if got := before.Became(s.Seen()); (got == scenes.InPeace) != tc.peace {
				t.Errorf("the agent was %s", got)
			}
			if r := s.Status(); r.State == decision.NeedsAttention || r.FailedVersion != nil {
				t.Errorf("status: %s, failed %s", r.State, scenes.Text(r.FailedVersion))
			}
		})
	}
}
