//go:build hosts

package operator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/decision"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

func TestStatusAndVerifyKnowTheAgent(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.StatusIs("waiting")
	s.Proven()
	s.StatusIs("idle")
	if a := s.Status().Agent; scenes.Text(a.ActiveState) != "active" || scenes.Text(a.SubState) != "running" || scenes.Text(a.Version) != "1.0.0" ||
		a.PID == nil || fmt.Sprint(*a.PID) != strings.TrimSpace(s.Read("/run/teleport.pid")) || a.Since == nil || a.Restarts == nil || a.EnabledAtBoot == nil || !*a.EnabledAtBoot {
		t.Errorf("status: %s", a.Text(time.Now()))
	}
	if out := s.Must(updater, "verify"); !strings.HasSuffix(out, " other checks: ok") {
		t.Errorf("verify prints:\n%s", out)
	}

	s.Must("systemctl", "stop", "teleport")
	s.StatusIs("needs_attention")
	s.unwell("is enabled at boot and does not run")
	s.Must("systemctl", "disable", "teleport")
	s.StatusIs("waiting")
	s.Must(updater, "verify")
	// A mask is named by its link.
	for _, folder := range []string{"/etc", "/run"} {
		mask := folder + "/systemd/system/teleport.service"
		s.Must("ln", "-s", "/dev/null", mask)
		s.Must("systemctl", "daemon-reload")
		if r := s.Status(); r.State != decision.Waiting || !strings.Contains(r.Explanation, "teleport.service is masked by "+mask) {
			t.Errorf("the agent is masked, and status is %s: %s", r.State, r.Explanation)
		}
		s.Must("rm", mask)
	}
	s.Must("systemctl", "daemon-reload")
	s.Must("systemctl", "enable", "--now", "teleport")
	s.Serves("1.0.0")

	// The links lead to one version, and the process is of another.
	s.Wants("1.1.0")
	s.Must(updater, "update")
	s.Must("ln", "-sfn", programs+"/1.0.0/bin/teleport", linkDir+"/teleport")
	s.Must("systemctl", "restart", "teleport")
	s.RunsFrom(s.Executable("1.0.0"))
	s.Must("ln", "-sfn", programs+"/1.1.0/bin/teleport", linkDir+"/teleport")
	s.StatusIs("needs_attention")
	s.unwell("the agent runs version 1.0.0, and the links lead to version 1.1.0")
	s.Must("systemctl", "restart", "teleport")
	s.Serves("1.1.0")
	s.StatusIs("idle")
	s.Must(updater, "verify")
}

// unwell asserts that verify fails by the agent.
func (s *scene) unwell(says string) {
	s.T.Helper()
	r := s.Try(updater, "verify")
	if r.Code != 1 || !strings.Contains(r.Stdout, "BAD  agent: ") || !strings.Contains(r.Stdout, says) {
		s.T.Errorf("verify: exit code %d, want 1 and %q:\n%s%s", r.Code, says, r.Stdout, r.Stderr)
	}
	if strings.Contains(r.Stdout+r.Stderr, "update --now") {
		s.T.Errorf("verify advises what lifts a hold:\n%s%s", r.Stdout, r.Stderr)
	}
}

// A version may crash after its health window: the next run of the timer sees it.
func TestAVersionThatCrashesAfterItsWindowIsSeen(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Variant: stamp.CrashLoops, Unit: release.Unit{NoReload: true}})
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Wants("1.1.0")
	if code := s.Tick(); code != 0 {
		t.Fatalf("the tick ends with %d:\n%s", code, s.Log(""))
	}
	host.Wait(t, patience, func() error {
		var n int // well above what the last run has seen
		if fmt.Sscan(s.Show("teleport", "NRestarts"), &n); n < 6 {
			return fmt.Errorf("restarted %d times", n)
		}
		return nil
	})
	for n := range 2 {
		if code := s.Tick(); code != 0 {
			t.Errorf("the tick ends with %d", code)
		}
		host.Wait(t, patience, func() error {
			if s.Show("teleport", "SubState") == "running" {
				return fmt.Errorf("between two crashes")
			}
			return nil
		})
		r := s.Status()
		if r.State != decision.Unstable || r.Unstable == nil || r.Unstable.Count != n+1 || !strings.Contains(r.Explanation, "`teleport-update rollback` goes back to version 1.0.0") {
			t.Fatalf("status: %s, %s, %+v", r.State, r.Explanation, r.Unstable)
		}
	}
	if log := s.Log("teleport-update.service"); !strings.Contains(log, "the agent is unstable version=1.1.0") {
		t.Errorf("the journal of the timer's unit says:\n%s", log)
	}
	s.unwell("crashes again and again")
	s.Must(updater, "rollback")
	s.Serves("1.0.0")
	s.StatusIs("held")
	s.Tick()
	s.Must(updater, "verify")
}

// Who looks at the timer's unit finds there why its run failed, although the
// transaction ran in another.
func TestTheTimersUnitSaysWhyItsRunFailed(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Variant: stamp.ExitsAtStart, Unit: release.Unit{NoReload: true}})
	s.RunsOn("1.0.0")
	s.Wants("1.1.0")
	s.Try("systemctl", "start", "teleport-update.service")
	s.Must("journalctl", "--sync")
	if out := s.Try("systemctl", "status", "--no-pager", "--full", "teleport-update.service").Stdout; !strings.Contains(out, "version 1.1.0 was not healthy") && !strings.Contains(out, "the agent exited with status") {
		t.Errorf("systemctl status says:\n%s", out)
	}
	s.Serves("1.0.0")
	s.StatusIs("backing_off")
}

// With --rollback-window the timer's run goes back by itself, once for a version.
func TestATickGoesBackFromAVersionThatCrashes(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Variant: stamp.CrashLoops, Unit: release.Unit{NoReload: true}})
	s.RunsOn("1.0.0", "--health-window", "1s", "--rollback-window", "1h")
	crashes := func() {
		t.Helper()
		host.Wait(t, patience, func() error {
			var n int // well above what the last run has seen
			if fmt.Sscan(s.Show("teleport", "NRestarts"), &n); n < 6 {
				return fmt.Errorf("restarted %d times", n)
			}
			return nil
		})
	}
	s.Wants("1.1.0")
	s.Tick()
	crashes()
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick that goes back ends with %d", code)
	}
	s.Serves("1.0.0")
	s.StatusIs("backing_off")
	if r := s.Status(); scenes.Text(r.FailedVersion) != "1.1.0" || r.HeldVersion != nil || r.Unstable != nil {
		t.Errorf("status: failed %s, held %s, %+v", scenes.Text(r.FailedVersion), scenes.Text(r.HeldVersion), r.Unstable)
	}
	s.Refused("back to the version that was left", []string{"failed on this host", "teleport-update rollback 1.1.0"}, updater, "rollback")
	s.Must(updater, "update", "--now")
	crashes()
	s.Tick()
	s.StatusIs("unstable")
	s.LinkedFiles("1.1.0")
}
