//go:build hosts

package recovery

import (
	"fmt"
	"strings"
	"testing"

	"teleport-update/find"
	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
	"teleport-update/internal/version"
)

func TestAShutdownInMidWatchIsUndoneAtBootAndNotBlamed(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0")
	s.rebootInMidWatch("1.1.0")
	host.Wait(t, patience, func() error {
		if got := s.MainExecutable("teleport"); got != programs+"/1.0.0/bin/teleport" {
			return fmt.Errorf("the agent executes %q", got)
		}
		return nil
	})
	for _, line := range []string{"the host is shutting down in the middle of the transaction", "putting the old version back before the agent starts"} {
		if !strings.Contains(s.Log(""), line) {
			t.Errorf("the journal does not say %q", line)
		}
	}
	if got := s.Read(unitFile); got != s.Read(programs+"/1.0.0/etc/systemd/teleport.service") {
		t.Errorf("the unit is not the one of 1.0.0:\n%s", got)
	}
	s.StatusIs("needs_attention")
	if o := s.Status().OpenTransaction; o == nil || o.Phase != "restored" {
		t.Errorf("status after the boot: open transaction %+v", o)
	}

	// The next tick closes it; this cluster does not want anything just now.
	s.Set(find.Answer{Version: "1.1.0", Edition: version.OSS})
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick that closes the transaction ends with %d", code)
	}
	s.Serves("1.0.0")
	if r := s.Status(); scenes.Text(r.LastResult) != "interrupted" || r.FailedVersion != nil || r.FailedAttempts != nil {
		t.Errorf("status: last result %s, failed %s", scenes.Text(r.LastResult), scenes.Text(r.FailedVersion))
	}

	s.Wants("1.1.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick that tries again ends with %d", code)
	}
	s.Serves("1.1.0")
}

// What was started by hand does not come back at boot, and is not for the
// recovery to start.
func TestAnAgentThatIsNotEnabledStaysDownAfterAShutdownInMidWatch(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0")
	s.Must("systemctl", "disable", "teleport")
	s.rebootInMidWatch("1.1.0")

	s.Set(find.Answer{Version: "1.1.0", Edition: version.OSS})
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick that closes the transaction ends with %d", code)
	}
	s.Linked("1.0.0")
	if got := s.Show("teleport", "ActiveState"); got != "inactive" {
		t.Errorf("the agent's unit is %s", got)
	}
	if r := s.Status(); scenes.Text(r.LastResult) != "interrupted" || r.FailedVersion != nil {
		t.Errorf("status: last result %s, failed %s", scenes.Text(r.LastResult), scenes.Text(r.FailedVersion))
	}
}

// rebootInMidWatch begins an update and reboots the host while the new version
// is being watched.
func (s *scene) rebootInMidWatch(v string) {
	s.T.Helper()
	s.Wants(v)
	s.MidWatch(v)
	if err := s.PowerOff(s.T.Context()); err != nil {
		s.T.Fatal(err)
	}
	if !s.Exists(store + "/journal.json") {
		s.T.Fatal("no journal is left for the next boot")
	}
	if err := s.Boot(s.T.Context()); err != nil {
		s.T.Fatal(err)
	}
}
