//go:build hosts

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/installer"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/internal/version"
)

func TestAFreshEnableStartsNothingAndPinsNothing(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0")
	s.wants("1.0.0")

	s.enable()
	s.linked("1.0.0")
	if got := s.Show("teleport", "ActiveState"); got != "inactive" {
		t.Errorf("the agent's unit is %s although nobody started it", got)
	}
	if got := s.Show("teleport", "UnitFileState"); got != "disabled" {
		t.Errorf("the agent's unit is %s although nobody enabled it", got)
	}
	r := s.status()
	if !r.Unproven || text(r.LastResult) != "succeeded" || r.State != installer.StateIdle || !r.UpdatesEnabled {
		t.Errorf("status: unproven %v, last result %s, %s, enabled %v", r.Unproven, text(r.LastResult), r.State, r.UpdatesEnabled)
	}
	if got := s.Show("teleport-update.timer", "ActiveState"); got != "active" {
		t.Errorf("the timer is %s", got)
	}

	s.Must("systemctl", "enable", "--now", "teleport")
	s.serves("1.0.0")
	for path, what := range s.Tree("/etc/systemd") {
		if strings.Contains(what, store) {
			t.Errorf("%s pins a version: %s", path, what)
		}
	}
}

func TestTheTimerUpdates(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0", "1.1.0")
	s.running("1.0.0", "--health-window", "1s")
	s.wants("1.1.0")

	s.Write("/etc/systemd/system/teleport-update.timer.d/90-often.conf",
		"[Timer]\nOnCalendar=\nOnCalendar=*:*:0/5\nRandomizedDelaySec=0\nAccuracySec=100ms\n")
	s.Must("systemctl", "daemon-reload")
	host.Wait(t, patience, func() error {
		if got := s.Link(linkDir + "/teleport"); got != store+"/1.1.0/bin/teleport" || s.Exists(store+"/journal.json") {
			return fmt.Errorf("the timer has not updated: teleport leads to %s", got)
		}
		return nil
	})
	s.serves("1.1.0")
	if log := s.Log("teleport-update.service"); !strings.Contains(log, "downloading version=1.1.0") {
		t.Errorf("the timer's unit says nothing of the update:\n%s", log)
	}
}

func TestAReloadLosesNoRequest(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0", "1.1.0")
	s.running("1.0.0")
	before := s.Show("teleport", "InvocationID")
	asked := s.askAllTheTime("http://127.0.0.1:3000/readyz")

	s.wants("1.1.0")
	s.Must(updater, "update")
	s.serves("1.1.0")
	if after := s.Show("teleport", "InvocationID"); after != before {
		t.Errorf("the unit was restarted")
	}
	if n, failed := asked(); n < 20 || len(failed) > 0 {
		t.Errorf("of %d requests during the update %d failed: %v", n, len(failed), failed)
	}
}

func TestAnOldProcessThatDrainsIsNotCutOff(t *testing.T) {
	s := newScene(t)
	s.release(release.Spec{Version: "1.0.0", Variant: stamp.Drains})
	s.sound("1.1.0", "1.2.0", "1.3.0")
	s.running("1.0.0", "--health-window", "1s")
	old := s.pid()
	session := s.openSession()

	s.wants("1.1.0")
	s.Must(updater, "update")
	s.serves("1.1.0")
	session.goesOn("1.0.0 " + old)

	// Two commits later nothing but the process needs its version.
	s.wants("1.2.0")
	s.Must(updater, "update")
	s.serves("1.2.0")
	session.goesOn("1.0.0 " + old)
	if got := s.versions(); !slices.Equal(got, []string{"1.0.0", "1.1.0", "1.2.0"}) {
		t.Errorf("kept are %v; want the draining one, the previous one and the active one", got)
	}

	s.Must("kill", old)
	host.Wait(t, patience, func() error {
		if s.Exists("/proc/" + old) {
			return fmt.Errorf("process %s is still there", old)
		}
		return nil
	})
	s.wants("1.3.0")
	s.Must(updater, "update")
	if got := s.versions(); !slices.Equal(got, []string{"1.2.0", "1.3.0"}) {
		t.Errorf("kept are %v; want the previous one and the active one", got)
	}
}

func TestAHostEnabledAtAVersionLongGoneBootsOnTheNewest(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0", "1.1.0", "1.2.0")
	s.running("1.0.0", "--health-window", "1s")
	for _, v := range []string{"1.1.0", "1.2.0"} {
		s.wants(v)
		s.Must(updater, "update")
	}
	if got := s.versions(); !slices.Equal(got, []string{"1.1.0", "1.2.0"}) {
		t.Fatalf("kept are %v; want the previous one and the active one", got)
	}
	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.serves("1.2.0")
}

func TestAnUpdateOutlivesTheShellThatTheAgentRuns(t *testing.T) {
	s := newScene(t)
	restarts := release.Unit{NoReload: true, RestartDelay: 300 * time.Millisecond}
	s.release(release.Spec{Version: "1.0.0", Unit: restarts})
	s.release(release.Spec{Version: "1.1.0", Unit: restarts})
	s.release(release.Spec{Version: "1.2.0", Unit: restarts, Variant: stamp.ExitsAtStart})
	s.running("1.0.0")

	s.wants("1.1.0")
	s.diesInSession("update")
	s.closed()
	s.serves("1.1.0")

	s.wants("1.2.0")
	s.diesInSession("update")
	s.closed()
	s.serves("1.1.0")
	if r := s.status(); text(r.FailedVersion) != "1.2.0" || text(r.LastResult) != "rolled_back" {
		t.Errorf("status: failed %s, last result %s", text(r.FailedVersion), text(r.LastResult))
	}
}

func TestAShutdownInMidWatchIsUndoneAtBootAndNotBlamed(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0", "1.1.0")
	s.running("1.0.0")
	s.rebootInMidWatch("1.1.0")
	host.Wait(t, patience, func() error {
		if got := s.MainExecutable("teleport"); got != store+"/1.0.0/bin/teleport" {
			return fmt.Errorf("the agent executes %q", got)
		}
		return nil
	})
	for _, line := range []string{"the host is shutting down in the middle of the switch", "putting the old version back before the agent starts"} {
		if !strings.Contains(s.Log(""), line) {
			t.Errorf("the journal does not say %q", line)
		}
	}
	if got := s.Read(unitFile); got != s.Read(store+"/1.0.0/etc/systemd/teleport.service") {
		t.Errorf("the unit is not the one of 1.0.0:\n%s", got)
	}
	s.statusIs("needs_attention")
	if o := s.status().OpenTransaction; o == nil || o.Phase != "restored" {
		t.Errorf("status after the boot: open transaction %+v", o)
	}

	// The next tick closes it; this cluster does not want anything just now.
	s.set(find.Answer{Version: "1.1.0", Edition: version.OSS})
	if code := s.tick(); code != 0 {
		t.Errorf("the tick that closes the switch ends with %d", code)
	}
	s.serves("1.0.0")
	if r := s.status(); text(r.LastResult) != "interrupted" || r.FailedVersion != nil || r.FailedAttempts != nil {
		t.Errorf("status: last result %s, failed %s", text(r.LastResult), text(r.FailedVersion))
	}

	s.wants("1.1.0")
	if code := s.tick(); code != 0 {
		t.Errorf("the tick that tries again ends with %d", code)
	}
	s.serves("1.1.0")
}

// What was started by hand does not come back at boot, and is not for the
// recovery to start.
func TestAnAgentThatIsNotEnabledStaysDownAfterAShutdownInMidWatch(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0", "1.1.0")
	s.running("1.0.0")
	s.Must("systemctl", "disable", "teleport")
	s.rebootInMidWatch("1.1.0")

	s.set(find.Answer{Version: "1.1.0", Edition: version.OSS})
	if code := s.tick(); code != 0 {
		t.Errorf("the tick that closes the switch ends with %d", code)
	}
	s.linked("1.0.0")
	if got := s.Show("teleport", "ActiveState"); got != "inactive" {
		t.Errorf("the agent's unit is %s", got)
	}
	if r := s.status(); text(r.LastResult) != "interrupted" || r.FailedVersion != nil {
		t.Errorf("status: last result %s, failed %s", text(r.LastResult), text(r.FailedVersion))
	}
}

// rebootInMidWatch begins an update and reboots the host while the new version
// is being watched.
func (s *scene) rebootInMidWatch(v string) {
	s.t.Helper()
	s.wants(v)
	s.midWatch(v)
	if err := s.PowerOff(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	if !s.Exists(store + "/journal.json") {
		s.t.Fatal("no journal is left for the next boot")
	}
	if err := s.Boot(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}
