//go:build hosts

package guides

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
)

// RFD 0169, Manual Workflow: hosts without the updater, brought to their cluster's
// version by a tool of the operator's.
func TestAgentsFollowTheirClusterWithoutTheUpdater(t *testing.T) {
	t.Parallel()
	for name, tool := range map[string]struct {
		run  []string
		fine string // what it says where there is nothing to do
	}{
		"with the shell script": {[]string{"env", "WATCH=10", "MIRROR=" + proxy + "/releases", "/root/update-agent.sh", "mytenant.teleport.sh", "staging"}, "but not now"},
		"with Ansible": {[]string{"env", "HOME=/root", "ANSIBLE_PIPELINING=1", "ansible-playbook", "-i", "/root/inventory.ini", "/root/teleport-agents.yml",
			"-e", "teleport_proxy=mytenant.teleport.sh", "-e", "teleport_group=staging"}, "changed=0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.sound("1.0.0", "1.1.0")
			buildRelease(t, s.releases, release.Spec{Version: "1.2.0", Variant: stamp.ExitsAtStart})
			for _, f := range []string{"update-agent.sh", "teleport-agents.yml"} {
				check(t, s.CopyIn(filepath.Join(module, "packaging/automation", f), "/root/"+f, 0o755))
			}
			s.Write("/root/inventory.ini", "[teleport_agents]\nweb-1 ansible_connection=local ansible_python_interpreter=/usr/bin/python3 teleport_watch_seconds=10\n")
			must := func(says string) {
				t.Helper()
				if out := s.Must(tool.run...); !strings.Contains(out, says) {
					t.Errorf("it does not say %q:\n%s", says, out)
				}
			}
			on := func(v string) {
				t.Helper()
				want := "/opt/teleport-agent/" + v + "/teleport"
				host.Wait(t, 20*time.Second, func() error {
					if got := s.MainExecutable("teleport"); got != want {
						return fmt.Errorf("the agent executes %q; want %s", got, want)
					}
					return nil
				})
				if got := s.Link(linkDir + "/teleport"); got != want {
					t.Errorf("teleport leads to %s; want %s", got, want)
				}
			}

			s.wants("1.0.0")
			must("")
			s.Must("systemctl", "enable", "--now", "teleport")
			on("1.0.0")

			invocation := s.Show("teleport", "InvocationID")
			s.wants("1.1.0")
			must("")
			on("1.1.0")
			if s.Show("teleport", "InvocationID") != invocation {
				t.Error("the agent was restarted, not reloaded")
			}
			uuid := strings.TrimSpace(s.Read("/var/lib/teleport/host_uuid"))
			asked := s.requests("/v1/webapi/find")
			if last := asked[len(asked)-1]; !strings.Contains(last, "host="+uuid) || !strings.Contains(last, "group=staging") {
				t.Errorf("find was asked %s", last)
			}

			s.wants("1.2.0")
			if r := s.Try(tool.run...); r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, "back on 1.1.0") {
				t.Errorf("a version that does not run: exit code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
			}
			on("1.1.0")

			// The group's turn has not come: the version waits, and nothing changes.
			s.waits()
			before := s.Tree("/opt", "/usr/local")
			must(tool.fine)
			s.Unchanged(before, s.Tree("/opt", "/usr/local"))
		})
	}
}
