package installer

import (
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
)

// The command would end with the agent that serves its shell.
func TestAnUninstallWithTheAgentIsRefusedInAShellThatTheAgentServes(t *testing.T) {
	for name, tc := range map[string]struct {
		group     string
		withAgent bool
		refused   bool
	}{
		"in a session of the agent's": {group: "0::/system.slice/teleport.service\n", withAgent: true, refused: true},
		"the agent stays":             {group: "0::/system.slice/teleport.service\n"},
		"in a session of sshd's":      {group: "0::/user.slice/user-0.slice/session-1.scope\n", withAgent: true},
	} {
		t.Run(name, func(t *testing.T) {
			i := testInstaller(t)
			i.Processes.Proc = t.TempDir()
			writeFile(t, filepath.Join(i.Processes.Proc, "self/cgroup"), tc.group)
			_, planned := i.UninstallPlan(t.Context(), tc.withAgent)
			_, err := i.Uninstall(t.Context(), tc.withAgent)
			for _, err := range []error{planned, err} {
				if refused := err != nil && strings.Contains(err.Error(), "this shell is served by the agent"); refused != tc.refused {
					t.Errorf("it ends with %v; want it refused: %v", err, tc.refused)
				}
			}
		})
	}
}

// A person types the commands in a shell.
func TestTheCommandsAfterAnUninstallQuoteTheirPaths(t *testing.T) {
	n := next{i: testInstaller(t), sight: transaction.Sight{State: state.AgentRunning}}
	u := transaction.Uninstall{Unit: "/etc/my units/teleport.service", Programs: []string{"/opt/a $b/teleport"}}
	u.Config.Spec.ActiveVersion = "1.1.0"
	lines := n.lines(t.Context(), u)
	if len(lines) < 2 {
		t.Fatalf("there are no commands: %q", lines)
	}
	for _, line := range lines[1:] {
		if !strings.Contains(line, `rm -f '/etc/my units/teleport.service' '/opt/a $b/teleport'`) {
			t.Errorf("%s", line)
		}
	}
}
