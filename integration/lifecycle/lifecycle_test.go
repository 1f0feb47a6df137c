//go:build hosts

package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

func TestAFreshEnableStartsNothingAndPinsNothing(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Wants("1.0.0")

	s.Enable()
	s.Linked("1.0.0")
	if got := s.Show("teleport", "ActiveState"); got != "inactive" {
		t.Errorf("the agent's unit is %s although nobody started it", got)
	}
	if got := s.Show("teleport", "UnitFileState"); got != "disabled" {
		t.Errorf("the agent's unit is %s although nobody enabled it", got)
	}
	r := s.Status()
	if !r.Unproven || scenes.Text(r.LastResult) != "succeeded" || r.State != decision.Waiting || !r.UpdatesEnabled {
		t.Errorf("status: unproven %v, last result %s, %s, enabled %v", r.Unproven, scenes.Text(r.LastResult), r.State, r.UpdatesEnabled)
	}
	if got := s.Show("teleport-update.timer", "ActiveState"); got != "active" {
		t.Errorf("the timer is %s", got)
	}

	s.Must("systemctl", "enable", "--now", "teleport")
	s.Serves("1.0.0")
	for path, what := range s.Tree("/etc/systemd") {
		if strings.Contains(what, store) {
			t.Errorf("%s pins a version: %s", path, what)
		}
	}
}

func TestTheTimerUpdates(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Wants("1.1.0")

	s.Write("/etc/systemd/system/teleport-update.timer.d/90-often.conf",
		"[Timer]\nOnCalendar=\nOnCalendar=*:*:0/5\nRandomizedDelaySec=0\nAccuracySec=100ms\n")
	s.Must("systemctl", "daemon-reload")
	host.Wait(t, patience, func() error {
		if got := s.Link(linkDir + "/teleport"); got != programs+"/1.1.0/bin/teleport" || s.Exists(store+"/journal.json") {
			return fmt.Errorf("the timer has not updated: teleport leads to %s", got)
		}
		return nil
	})
	s.Serves("1.1.0")
	if log := s.Log("teleport-update.service"); !strings.Contains(log, "downloading version=1.1.0") {
		t.Errorf("the timer's unit says nothing of the update:\n%s", log)
	}
}

func TestAReloadLosesNoRequest(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0")
	before := s.Show("teleport", "InvocationID")
	asked := s.AskAllTheTime("http://127.0.0.1:3000/readyz")

	s.Wants("1.1.0")
	s.Must(updater, "update")
	s.Serves("1.1.0")
	if after := s.Show("teleport", "InvocationID"); after != before {
		t.Errorf("the unit was restarted")
	}
	if n, failed := asked(); n < 20 || len(failed) > 0 {
		t.Errorf("of %d requests during the update %d failed: %v", n, len(failed), failed)
	}
}

func TestAnOldProcessThatDrainsIsNotCutOff(t *testing.T) {
	s := newScene(t)
	s.Release(release.Spec{Version: "1.0.0", Variant: stamp.Drains})
	s.Sound("1.1.0", "1.2.0", "1.3.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	old := s.PID()
	session := s.OpenSession()

	s.Wants("1.1.0")
	s.Must(updater, "update")
	s.Serves("1.1.0")
	session.GoesOn("1.0.0 " + old)

	// Two commits later nothing but the process needs its version.
	s.Wants("1.2.0")
	s.Must(updater, "update")
	s.Serves("1.2.0")
	session.GoesOn("1.0.0 " + old)
	if got := s.Versions(); !slices.Equal(got, []string{"1.0.0", "1.1.0", "1.2.0"}) {
		t.Errorf("kept are %v; want the draining one, the previous one and the active one", got)
	}

	s.Must("kill", old)
	host.Wait(t, patience, func() error {
		if s.Exists("/proc/" + old) {
			return fmt.Errorf("process %s is still there", old)
		}
		return nil
	})
	s.Wants("1.3.0")
	s.Must(updater, "update")
	if got := s.Versions(); !slices.Equal(got, []string{"1.2.0", "1.3.0"}) {
		t.Errorf("kept are %v; want the previous one and the active one", got)
	}
}

func TestAHostEnabledAtAVersionLongGoneBootsOnTheNewest(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0", "1.2.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	for _, v := range []string{"1.1.0", "1.2.0"} {
		s.Wants(v)
		s.Must(updater, "update")
	}
	if got := s.Versions(); !slices.Equal(got, []string{"1.1.0", "1.2.0"}) {
		t.Fatalf("kept are %v; want the previous one and the active one", got)
	}
	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Serves("1.2.0")
}
