//go:build hosts

package lifecycle

import (
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/integration/cluster"
	"teleport-update/integration/scenes"
)

// A first enable that cloud-init ran before the proxy was there is told by status with the command to type, which works
// then. The timer does not try it again, and an uninstall takes what was written down.
func TestAFirstEnableThatDidNotReachFindIsToldByStatus(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Wants("1.0.0")
	s.Must("mkdir", "-p", "/var/lib/systemd/timers")
	before := s.Tree(scenes.TheHost...)
	enable := []string{updater, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--health-window", "1s"}
	fails := func() {
		t.Helper()
		s.Breaks(cluster.FindDown)
		s.Fails(1, "nothing was changed", enable...)
		s.Breaks(nil)
		if r := s.Status(); r.State != decision.NeedsAttention || r.UpdatesEnabled || !strings.Contains(r.Explanation, "the first enable failed") {
			t.Errorf("status: %s: %s", r.State, r.Explanation)
		}
	}

	fails()
	asked := s.Asked.Load()
	if code := s.Tick(); code != 0 || s.Asked.Load() != asked {
		t.Errorf("a run of the timer ends with %d; it asked the cluster: %v", code, s.Asked.Load() != asked)
	}
	s.Must(updater, "uninstall")
	s.Unchanged(before, s.Tree(scenes.TheHost...))

	fails()
	_, command, _ := strings.Cut(s.Status().Explanation, "then `")
	command, _, _ = strings.Cut(command, "`")
	s.Must("sh", "-c", command)
	s.Must("systemctl", "enable", "--now", "teleport")
	s.Serves("1.0.0")
	if r := s.Status(); strings.Contains(r.Explanation, "first enable") {
		t.Errorf("after it succeeded, status: %s: %s", r.State, r.Explanation)
	}
}
