package installer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// otherAgent has teleport-node.service run an agent by a program.
func otherAgent(t *testing.T, i *Installer, program string) {
	t.Helper()
	process := filepath.Join(i.Processes.Proc, "4712")
	writeFile(t, filepath.Join(process, "cgroup"), "0::/system.slice/teleport-node.service\n")
	writeFile(t, filepath.Join(process, "environ"), "")
	writeFile(t, filepath.Join(process, "cmdline"), filepath.Join(i.Machine.Host.Paths.LinkDir, "teleport")+"\x00start\x00")
	must(t, os.Symlink(program, filepath.Join(process, "exe")))
	must(t, os.Symlink("/", filepath.Join(process, "root")))
	must(t, os.MkdirAll(i.Machine.Host.Paths.LinkDir, 0o755))
}

// The first enable would put the cluster's version under an agent of which it knows nothing else.
func TestTheFirstEnableRefusesAnAgentOfAnotherUnit(t *testing.T) {
	for systemdRuns, want := range map[bool]bool{true: true, false: false} {
		i := testInstaller(t)
		ownProc(t, i)
		otherAgent(t, i, filepath.Join(i.Machine.Host.Paths.LinkDir, "teleport"))
		i.Machine.Connect = sightOf(i, func(u *systemd.Unit, executes *string) {
			*u, *executes = systemd.Unit{Name: "teleport.service", LoadState: "not-found"}, ""
			if systemdRuns {
				u.ActiveState = "inactive"
			}
		})
		err := i.Enable(t.Context(), EnableOptions{Proxy: "http://127.0.0.1:1"})
		named := err != nil && strings.Contains(err.Error(), "teleport-node.service runs an agent by ")
		if named != want || want && !failure.Is[*failure.RefusedError](err) {
			t.Errorf("systemd runs: %v; it ends with %v", systemdRuns, err)
		}
	}
}

// Later, status tells of it, and nobody advises the restart that would bring it to another version.
func TestAnAgentOfAnotherUnitIsNotToBeRestarted(t *testing.T) {
	h := newWellHost(t)
	otherAgent(t, h.Installer, filepath.Join(h.Machine.Host.Paths.Versions(), "1.0.0", "bin", "teleport"))
	is, types := h.state(t)
	if is != decision.NeedsAttention || !slices.Equal(types, []decision.Type{decision.OtherAgents}) {
		t.Errorf("the host is %s, by %v", is, types)
	}
}

// Where another unit has the agent's data, a start of the agent would be a second one.
func TestNobodyAdvisesToStartASecondAgent(t *testing.T) {
	for name, change := range map[string]func(u *systemd.Unit){
		"disabled": func(u *systemd.Unit) { u.UnitFileState = "disabled" },
		"enabled":  func(u *systemd.Unit) {},
		"masked":   func(u *systemd.Unit) { u.LoadState = "masked" },
	} {
		t.Run(name, func(t *testing.T) {
			h := newWellHost(t)
			otherAgent(t, h.Installer, filepath.Join(h.Machine.Host.Paths.Versions(), "1.0.0", "bin", "teleport"))
			h.unit.ActiveState, h.unit.SubState, h.executes = "inactive", "dead", ""
			change(&h.unit)
			h.state(t)
			r, err := h.Status(t.Context(), StatusOptions{})
			must(t, err)
			named := false
			for _, c := range r.Conditions {
				named = named || strings.Contains(c.Message, "teleport-node.service runs an agent (PID 4712), and two agents on one data folder damage it")
				if strings.Contains(c.Message, "--now teleport`") || strings.Contains(c.Message, "`systemctl start teleport`") {
					t.Errorf("it is advised to start the agent: %s", c.Message)
				}
			}
			if !named {
				t.Errorf("nobody names the other agent: %+v", r.Conditions)
			}
		})
	}
}
