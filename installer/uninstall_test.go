package installer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/transaction"
	"teleport-update/systemd"
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

// Without systemd nothing stops an agent that runs: whoever uninstalls hears which processes go on.
func TestAnUninstallWithoutSystemdNamesWhatGoesOn(t *testing.T) {
	for name, tc := range map[string]struct {
		state string
		warns bool
	}{"without systemd": {warns: true}, "with systemd": {state: "active"}} {
		t.Run(name, func(t *testing.T) {
			i := testInstaller(t)
			var said bytes.Buffer
			i.Machine.Host.Log = slog.New(slog.NewTextHandler(&said, nil))
			i.Processes.Proc = t.TempDir()
			i.Machine.Connect = sightOf(i, func(u *systemd.Unit, _ *string) { u.ActiveState = tc.state })
			writeFile(t, filepath.Join(i.Machine.Host.Paths.Versions(), "1.0.0", "bin", "teleport"), "")
			writeFile(t, filepath.Join(i.Processes.Proc, "42", "cgroup"), "0::/\n")
			must(t, os.Symlink(filepath.Join(i.Machine.Host.Paths.Versions(), "1.0.0", "bin", "teleport"), filepath.Join(i.Processes.Proc, "42", "exe")))
			plan, err := i.UninstallPlan(t.Context(), false)
			must(t, err)
			if strings.Contains(strings.Join(plan, "\n"), "PID 42") != tc.warns {
				t.Errorf("the plan is %q", plan)
			}
		})
	}
}
