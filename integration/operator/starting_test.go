//go:build hosts

package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/integration/host"
)

// The unit of an agent may count as running while nobody serves: its start waits or hangs, its process
// has ended and the unit stays active, or somebody keeps it from running. Such a host is never idle, and is told of with updates off, too.
func TestAnAgentWithoutAProcessIsNotIdle(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Proven()
	s.StatusIs("idle")
	s.Write("/etc/systemd/system/slow.service", "[Service]\nType=oneshot\nExecStart=/bin/sleep infinity\nTimeoutStartSec=infinity\n")
	const dropIn = "/etc/systemd/system/teleport.service.d/50-test.conf"
	for _, c := range []struct {
		sub, dropIn, begin, end string
		state                   decision.State
		by                      decision.Type
		says                    string
	}{
		{"exited", "[Service]\nRemainAfterExit=yes\nRestart=no\n", "kill $(cat /run/teleport.pid)", "systemctl restart teleport",
			decision.NeedsAttention, decision.AgentDown, "`systemctl restart teleport` starts it"},
		{"running", "[Unit]\n", "systemctl freeze teleport", "systemctl thaw teleport", decision.NeedsAttention, decision.AgentDown,
			"`systemctl thaw teleport` has them go on"},
		{"running", "[Unit]\n", "kill -STOP $(cat /run/teleport.pid)", "kill -CONT $(cat /run/teleport.pid)", decision.NeedsAttention,
			decision.AgentDown, "has it go on"},
		{"dead", "[Unit]\nAfter=slow.service\n", "systemctl stop teleport; systemctl start --no-block slow teleport", "systemctl stop slow",
			decision.Waiting, decision.AgentStarting, "waits for slow.service"},
		{"start-pre", "[Service]\nExecStartPre=/bin/sleep infinity\nTimeoutStartSec=infinity\n", "systemctl restart --no-block teleport",
			"kill $(cat /sys/fs/cgroup/system.slice/teleport.service/cgroup.procs)", decision.Waiting, decision.AgentStarting, "(activating, start-pre)"},
		{"stop-post", "[Service]\nExecStopPost=/bin/sleep infinity\nTimeoutStopSec=infinity\n", "systemctl restart --no-block teleport",
			"systemctl kill --kill-who=control -s KILL teleport", decision.Waiting, decision.AgentStarting, "(deactivating, stop-post)"},
	} {
		s.Write(dropIn, c.dropIn)
		s.Must("systemctl", "daemon-reload")
		s.Must("sh", "-c", c.begin)
		host.Wait(t, patience, func() error {
			if got := s.Show("teleport", "SubState"); got != c.sub {
				return fmt.Errorf("the agent is %s", got)
			}
			return nil
		})
		s.StatusIs(string(c.state))
		for _, command := range []string{"disable", "enable"} {
			s.Must(updater, command)
			found := func(f decision.Condition) bool { return f.Type == c.by && strings.Contains(f.Message, c.says) }
			if r := s.Status(); !slices.ContainsFunc(r.Conditions, found) {
				t.Errorf("%s, after %s: status is %s, %+v; want %s with %q", c.sub, command, r.State, r.Conditions, c.by, c.says)
			}
		}
		bad := c.state.Alarming()
		if v := s.Try(updater, "verify"); (v.Code == 1) != bad || strings.Contains(v.Stdout, "BAD  agent: ") != bad || !strings.Contains(v.Stdout, c.says) {
			t.Errorf("%s: verify ends with %d:\n%s", c.sub, v.Code, v.Stdout)
		}
		s.Must("sh", "-c", c.end)
		s.Must("rm", dropIn)
		s.Must("systemctl", "daemon-reload")
		s.Serves("1.0.0")
		s.StatusIs("idle")
	}
}
