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
		proc  func(t *testing.T, proc string)
		warns bool
		blind bool
	}{
		"without systemd": {warns: true},
		"with systemd":    {state: "active", proc: hide("43/exe")},
		"another process is hidden": {proc: func(t *testing.T, proc string) {
			writeFile(t, filepath.Join(proc, "43", "comm"), "teleport\n")
			hide("43/exe")(t, proc)
		}, warns: true, blind: true},
		"processes are not shown": {proc: func(t *testing.T, proc string) { must(t, os.RemoveAll(filepath.Join(proc, "1"))) }, warns: true, blind: true},
	} {
		t.Run(name, func(t *testing.T) {
			i := testInstaller(t)
			var said bytes.Buffer
			i.Machine.Host.Log = slog.New(slog.NewTextHandler(&said, nil))
			i.Processes.Proc = t.TempDir()
			i.Machine.Connect = sightOf(i, func(u *systemd.Unit, _ *string) { u.ActiveState = tc.state })
			writeFile(t, filepath.Join(i.Machine.Host.Paths.Versions(), "1.0.0", "bin", "teleport"), "")
			writeFile(t, filepath.Join(i.Processes.Proc, "42", "cgroup"), "0::/\n")
			must(t, os.Symlink(filepath.Join(i.Machine.Host.Paths.Versions(), "1.0.0", "bin", "teleport"), filepath.Join(i.Processes.Proc, "42", "exe")))
			writeFile(t, filepath.Join(i.Processes.Proc, "1", "stat"), "1 (init) S 0 1 1 0 -1 4194560")
			if tc.proc != nil {
				tc.proc(t, i.Processes.Proc)
			}
			plan, err := i.UninstallPlan(t.Context(), false)
			must(t, err)
			text := strings.Join(plan, "\n")
			if strings.Contains(text, "PID 42") != tc.warns || strings.Contains(text, "not all processes can be seen: ") != tc.blind {
				t.Errorf("the plan is %q", plan)
			}
			if tc.blind && name == "another process is hidden" && !strings.Contains(text, "could not look at PID 43 (teleport): ") {
				t.Errorf("the plan does not name it: %q", plan)
			}
		})
	}
}

// hide makes what a process executes one that cannot be told.
func hide(exe string) func(*testing.T, string) {
	return func(t *testing.T, proc string) {
		path := filepath.Join(proc, exe)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(path, path)))
	}
}
