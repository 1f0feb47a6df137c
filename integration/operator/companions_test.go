//go:build hosts

package operator

import (
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/integration/cluster"
)

// An agent that another unit starts from the links is never restarted by the updater, and status advises no restart of it:
// that would bring it to another version, without a backup of its database. The first enable refuses such a host.
func TestAnAgentOfAnotherUnitIsNamed(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Write("/etc/second.yaml", "teleport:\n  data_dir: /srv/second\n  diag_addr: 127.0.0.1:3999\n")
	s.Write("/etc/systemd/system/second.service", "[Service]\nExecStart=/usr/local/bin/teleport start --config /etc/second.yaml --pid-file=/run/second.pid\n")
	s.Must("systemctl", "start", "second")
	second := s.Show("second", "MainPID")
	s.Wants("1.1.0")
	s.Fails(4, "second.service runs an agent by the linked program", updater, "update")
	s.Serves("1.1.0")
	if now := s.Show("second", "MainPID"); now != second {
		t.Errorf("the updater restarted it: %s, before %s", now, second)
	}
	r := s.Status()
	if r.State != decision.NeedsAttention || !strings.Contains(r.Explanation, "second.service runs an agent by the linked program") {
		t.Errorf("the host is %s: %s", r.State, r.Explanation)
	}
	for _, c := range r.Conditions {
		if c.Type == decision.CompanionsOld {
			t.Errorf("status advises a restart: %s", c.Message)
		}
	}
	// Who may not look at the processes of other services says so.
	s.Try("systemd-run", "--wait", "--quiet", "--property=CapabilityBoundingSet=~CAP_SYS_PTRACE", "--property=StandardOutput=file:/run/said",
		updater, "verify")
	said := s.Read("/run/said")
	for _, subject := range []string{"other services", "other agents"} {
		if !strings.Contains(said, "??   "+subject+": "+subject+" could not be looked at: what ") {
			t.Errorf("without the right to look, verify says\n%s", said)
		}
	}
	s.Must("systemctl", "stop", "second")
	if r := s.Status(); r.State != decision.Idle {
		t.Errorf("without it, the host is %s: %s", r.State, r.Explanation)
	}
	s.Must(updater, "uninstall", "--yes")
	s.Must("systemctl", "disable", "--now", "teleport")
	s.Must("systemctl", "start", "second")
	before := s.Must("sh", "-c", "sha256sum /usr/local/bin/teleport")
	s.Fails(1, "second.service runs an agent by /usr/local/bin/teleport", s.Path, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL)
	if after := s.Must("sh", "-c", "sha256sum /usr/local/bin/teleport"); after != before {
		t.Errorf("its program is %s, before %s", after, before)
	}
}
