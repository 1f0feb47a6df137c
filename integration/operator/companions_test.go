//go:build hosts

package operator

import (
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/installer/view"
)

// A unit beside the agent that executes from the links, as tbot's does, is never restarted by the
// updater: status names it, and the command that brings it to the active version.
func TestAServiceThatExecutesTheVersionBeforeIsNamed(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	// The releases' tbot is a script: the program of the agent stands for a program of the links.
	s.Write("/etc/second.yaml", "teleport:\n  data_dir: /srv/second\n  diag_addr: 127.0.0.1:3999\n")
	s.Write("/etc/systemd/system/second.service", "[Service]\nExecStart=/usr/local/bin/teleport start --config /etc/second.yaml --pid-file=/run/second.pid\n")
	s.Must("systemctl", "start", "second")
	told := func(r view.Status) string {
		for _, c := range r.Conditions {
			if c.Type == decision.CompanionsOld {
				return c.Message
			}
		}
		return ""
	}
	if got := told(s.Status()); got != "" {
		t.Errorf("one of the active version is named: %s", got)
	}
	second := s.Show("second", "MainPID")
	s.Updates("1.1.0")
	if now := s.Show("second", "MainPID"); now != second {
		t.Errorf("the updater restarted it: %s, before %s", now, second)
	}
	const command = "systemctl restart second.service"
	r := s.Status()
	if got := told(r); !strings.Contains(got, "second.service runs version 1.0.0") || !strings.Contains(got, "`"+command+"`") {
		t.Errorf("status says %q of a service on the version before", got)
	}
	if r.State != decision.Idle {
		t.Errorf("the host is %s: %s", r.State, r.Explanation)
	}
	// Who may not look at the processes of other services says so.
	s.Try("systemd-run", "--wait", "--quiet", "--property=CapabilityBoundingSet=~CAP_SYS_PTRACE", "--property=StandardOutput=file:/run/said",
		updater, "verify")
	if said := s.Read("/run/said"); !strings.Contains(said, "??   other services: other services could not be looked at: what ") {
		t.Errorf("without the right to look, verify says\n%s", said)
	}
	s.Must(strings.Fields(command)...)
	if got := told(s.Status()); got != "" {
		t.Errorf("after %s status says %s", command, got)
	}
}
