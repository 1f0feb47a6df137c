//go:build hosts

package rollout

import (
	"fmt"
	"strings"
	"testing"

	"teleport-update/find"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
	"teleport-update/internal/version"
)

const (
	dropIn      = "/usr/local/lib/systemd/system/teleport.service.d/10-teleport-update-report.conf"
	updaterInfo = scenes.Programs + "/update_config.yaml"
	agentRun    = "/run/teleport-update-agent"
	idFile      = agentRun + "/update-id"
	agentGroup  = "staging"
)

// newCounted is a host whose agent says hello to its cluster as Teleport's does.
func newCounted(t *testing.T) *scenes.Scene {
	s := scenes.New(t)
	s.Write("/etc/teleport.yaml", "teleport:\n  diag_addr: 127.0.0.1:3000\nstand_in:\n  cluster: "+cluster.ProxyAddress+"/hello\n")
	return s
}

// says waits until the agent's hello says so of its updater; "" is of none.
func says(s *scenes.Scene, status string) cluster.Hello {
	s.T.Helper()
	s.Inventory.Forget()
	var h cluster.Hello
	host.Wait(s.T, scenes.Patience, func() error {
		h = s.Inventory.Said()
		got := "nothing yet"
		switch {
		case h.HostUUID == "":
		case h.Updater == nil:
			got = ""
		default:
			got = h.Updater.Status
		}
		if got != status {
			return fmt.Errorf("the agent says %q of its updater; want %q", got, status)
		}
		return nil
	})
	return h
}

func counts(s *scenes.Scene, version string, wantAll, wantUpToDate int) {
	s.T.Helper()
	if all, upToDate := s.Inventory.Count(agentGroup, version); all != wantAll || upToDate != wantUpToDate {
		s.T.Errorf("the cluster counts %d hosts, %d of them on %s; want %d and %d", all, upToDate, version, wantAll, wantUpToDate)
	}
}

func TestAHostIsCountedByItsClusterAndIsACanary(t *testing.T) {
	s := newCounted(t)
	s.Sound("1.0.0", "1.1.0")
	s.Release(release.Spec{Version: "1.2.0", Variant: stamp.ExitsAtStart})
	s.RunsOn("1.0.0", "--group", agentGroup)
	if h := says(s, "ok"); h.Updater.Group != agentGroup || h.Updater.ID == "" {
		t.Errorf("the agent says %+v", *h.Updater)
	}
	counts(s, "1.0.0", 1, 1)
	for path, mode := range map[string]string{agentRun: "700 root", updaterInfo: "644 root", dropIn: "644 root"} {
		if got := strings.TrimSpace(s.Must("stat", "-c", "%a %U", path)); got != mode {
			t.Errorf("%s is %s; want %s", path, got, mode)
		}
	}

	// The tick asks with the id that the agent made, and is given the new version for it.
	wanted := find.Answer{Version: "1.1.0", Edition: version.OSS}
	if ids := s.PickCanaries(agentGroup, wanted); len(ids) != 1 || ids[0] != strings.TrimSpace(s.Read(idFile)) {
		t.Fatalf("canaries: %q", ids)
	}
	if code := s.Tick(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.Serves("1.1.0")
	says(s, "ok")
	counts(s, "1.1.0", 1, 1)

	// Who follows no cluster for now is not waited for by its rollout.
	s.Must(s.Path, "pin")
	says(s, "pinned")
	counts(s, "1.1.0", 0, 0)
	s.Must(s.Path, "unpin")
	says(s, "ok")
	s.Must(s.Path, "rollback")
	says(s, "pinned")
	s.Must(s.Path, "update", "--now")
	says(s, "ok")
	s.PickCanaries(agentGroup, find.Answer{Version: "1.2.0", Edition: version.OSS})
	if code := s.Tick(); code != 1 {
		t.Errorf("exit code %d of a tick to a version that fails", code)
	}
	says(s, "pinned")
	if info := s.Read(updaterInfo); !strings.Contains(info, "success: false") || !strings.Contains(info, "skip:\n    version: 1.2.0") {
		t.Errorf("the agent is told\n%s", info)
	}
	s.PickCanaries(agentGroup, wanted)
	s.Tick()
	says(s, "ok")
	s.Must(s.Path, "disable")
	says(s, "disabled")
	counts(s, "1.1.0", 0, 0)

	// What the updater tells the agent goes with it, and comes back, as a person says.
	before := s.AgentProcess()
	s.Enable("--group", agentGroup, "--no-cluster-report")
	left(s)
	if after := s.AgentProcess(); after != before {
		t.Error("the agent was restarted for it")
	}
	s.Must("systemctl", "restart", "teleport")
	says(s, "")
	s.Tick()
	left(s)
	s.Enable("--no-cluster-report=false")
	s.Must("systemctl", "restart", "teleport")
	says(s, "ok")
	s.Must("rm", dropIn)
	s.Tick()
	if !s.Exists(dropIn) {
		t.Error("a tick does not put the drop-in back")
	}
	s.Must(s.Path, "uninstall", "--yes")
	left(s)
	if s.Exists("/usr/local/lib/systemd/system/teleport.service.d") {
		t.Error("the folder of the drop-in is left")
	}
}

// An agent that was there before goes on without a restart for it, and is counted from its
// next start on; a first enable that fails leaves it as it was.
func TestAnAgentThatRunsIsCountedFromItsNextStartOn(t *testing.T) {
	s := newCounted(t)
	s.Release(release.Spec{Version: "1.1.0", Variant: stamp.HandoverDiesLate})
	s.Sound("1.2.0")
	s.RunPreExisting("1.0.0", scenes.PreExistingAgents["by hand"])
	says(s, "")
	s.Wants("1.1.0")
	s.Fails(1, "was not healthy", s.Path, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--health-window", scenes.Window, "--group", agentGroup)
	left(s)
	if s.Exists("/usr/local/lib/systemd/system/teleport.service.d") {
		t.Error("the folder of the drop-in is left")
	}

	s.Wants("1.2.0")
	before := s.Show("teleport", "InvocationID")
	s.Enable("--group", agentGroup)
	s.Serves("1.2.0")
	if after := s.Show("teleport", "InvocationID"); after != before {
		t.Error("the agent was restarted")
	}
	says(s, "")
	if r := s.Try(s.Path, "verify"); r.Code != 0 || strings.Contains(r.Stdout, "BAD  restart pending") {
		t.Errorf("verify ends with %d and says\n%s", r.Code, r.Stdout)
	}
	s.Must("systemctl", "restart", "teleport")
	says(s, "ok")
	counts(s, "1.2.0", 1, 1)
	s.Must(s.Path, "uninstall")
	left(s)
	s.Must("systemctl", "restart", "teleport")
	says(s, "")
}

// left asserts that nothing tells the agent of an updater.
func left(s *scenes.Scene) {
	s.T.Helper()
	for _, path := range []string{dropIn, updaterInfo, agentRun} {
		if s.Exists(path) {
			s.T.Errorf("%s is left", path)
		}
	}
	if got := s.Try("systemctl", "show", "-p", "Environment", "teleport").Stdout; strings.Contains(got, "TELEPORT_UPDATE") {
		s.T.Errorf("systemd knows %s", got)
	}
}
