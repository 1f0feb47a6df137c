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
