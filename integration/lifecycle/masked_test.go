//go:build hosts

package lifecycle

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/integration/host"
)

// `systemctl mask --now` masks the timer first, so that systemd cannot stop it in order and takes it for failed.
func TestTheDocumentedWayToMaskTheTimerLeavesTheSystemRunning(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Proven()
	module, err := host.Module()
	s.Check(err)
	page, err := os.ReadFile(filepath.Join(module, "docs", "automation.md"))
	s.Check(err)
	commands := regexp.MustCompile(`(?m)^systemctl .*teleport-update\.timer$`).FindAllString(string(page), -1)
	if len(commands) == 0 {
		t.Fatal("docs/automation.md has no command that masks the timer")
	}
	for _, command := range commands {
		s.Must(strings.Fields(command)...)
	}
	if got := strings.TrimSpace(s.Try("systemctl", "is-system-running").Stdout); got != "running" {
		t.Errorf("after %q the system is %s:\n%s", commands, got, s.Must("systemctl", "--failed", "--no-legend"))
	}
	if got := s.Show("teleport-update.timer", "LoadState"); got != "masked" {
		t.Errorf("the timer is %s after %q", got, commands)
	}
	if r := s.Status(); r.State != decision.Idle || len(r.Conditions) != 1 || r.Conditions[0].Type != decision.TimerOff {
		t.Errorf("the host is %s: %v", r.State, r.Conditions)
	}
	s.Must(updater, "verify")
}
