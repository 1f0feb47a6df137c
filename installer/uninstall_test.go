package installer

import (
	"path/filepath"
	"strings"
	"testing"
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
