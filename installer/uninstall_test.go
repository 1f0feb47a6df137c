package installer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/transaction"
)

// Whoever asks from a session of the agent's is told before the agent is stopped; one
// that is left alone ends nobody's session.
func TestAnUninstallWarnsAShellThatTheAgentServes(t *testing.T) {
	for name, tc := range map[string]struct {
		group string
		keep  bool
		warns bool
	}{
		"in a session of the agent's": {group: "0::/system.slice/teleport.service\n", warns: true},
		"the agent stays":             {group: "0::/system.slice/teleport.service\n", keep: true},
		"in a session of sshd's":      {group: "0::/user.slice/user-0.slice/session-1.scope\n"},
	} {
		t.Run(name, func(t *testing.T) {
			i := testInstaller(t)
			var said bytes.Buffer
			i.Machine.Host.Log = slog.New(slog.NewTextHandler(&said, nil))
			i.Processes.Proc = t.TempDir()
			writeFile(t, filepath.Join(i.Processes.Proc, "self/cgroup"), tc.group)
			plan, err := i.UninstallPlan(t.Context(), tc.keep)
			must(t, err)
			stop := errors.New("this test goes no further")
			i.Machine.Connect = func(context.Context) (transaction.Agent, error) { return nil, stop }
			if err := i.Uninstall(t.Context(), tc.keep); !errors.Is(err, stop) {
				t.Errorf("uninstall: %v", err)
			}
			for _, text := range []string{strings.Join(plan, "\n"), said.String()} {
				if strings.Contains(text, "this shell is served by the agent") != tc.warns {
					t.Errorf("warns is to be %v; it says\n%s", tc.warns, text)
				}
			}
		})
	}
}
