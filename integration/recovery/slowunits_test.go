//go:build hosts

package recovery

import (
	"fmt"
	"strings"
	"testing"

	"teleport-update/integration/agent/stamp"
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
