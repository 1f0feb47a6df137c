//go:build hosts

package takeover

import (
	"fmt"
	"strings"
	"testing"

	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
	"teleport-update/internal/layout"
)

// An agent whose user, or view of the file system, keeps it from the version's PID file goes on as it was, and comes to the
// version once a drop-in names another one, as the refusal advises.
func TestAnAgentThatCannotWriteTheVersionsPIDFileIsRefused(t *testing.T) {
	t.Parallel()
	const kept = "RuntimeDirectory=teleport\nRuntimeDirectoryPreserve=yes\n"
	const command = "/usr/local/bin/teleport start --config /etc/teleport.yaml"
	const own = "ExecStart=" + command + " --pid-file=/run/teleport/teleport.pid\nPIDFile=/run/teleport/teleport.pid\n" +
		"ExecReload=/bin/sh -c \"exec pkill -HUP -L -F /run/teleport/teleport.pid\"\n"
	for name, tc := range map[string]struct{ unit, dropIn, says string }{
		"a user":                    {unit: "User=agent\n" + kept + own, says: "User=agent of teleport.service is kept"},
		"a user without a PID file": {unit: "User=agent\nExecStart=" + command + "\n", dropIn: kept, says: "User=agent of teleport.service is kept"},
		"a view":                    {unit: "ProtectSystem=strict\nReadWritePaths=/srv/agent\n" + kept + own, says: "ProtectSystem=strict of teleport.service is kept"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.Sound("1.0.0")
			s.RunPreExisting("0.9.0", scenes.PreExistingAgents["by hand"])
			s.Write(unitFile, "[Service]\nRestart=always\nRestartSec=300ms\n"+tc.unit+"[Install]\nWantedBy=multi-user.target\n")
			s.Must("sh", "-ec", `systemctl stop teleport; rm -f /run/teleport.pid
				sed -i 's|^teleport:|&\n  data_dir: /srv/agent|' /etc/teleport.yaml
				echo agent:x:990:990::/nonexistent:/bin/sh >>/etc/passwd; echo agent:x:990: >>/etc/group
				mkdir -p /srv/agent; ! grep -q ^User= `+unitFile+` || chown agent: /srv/agent /etc/teleport.yaml; systemctl daemon-reload; systemctl start teleport`)
			invocation := s.Show("teleport", "InvocationID")
			s.Wants("1.0.0")
			enable := []string{s.Path, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--health-window", "1s"}
			said := s.Fails(1, tc.says, enable...)
			for _, line := range strings.Split(strings.TrimSuffix(tc.dropIn, "\n"), "\n") {
				if !strings.Contains(said, line) {
					t.Errorf("the refusal does not advise %q:\n%s", line, said)
				}
			}
			if now := s.Show("teleport", "InvocationID"); now != invocation {
				t.Error("the agent was started again by a refusal")
			}

			s.Write(layout.ConfigDir+"/teleport.service.d/override.conf",
				"[Service]\n"+tc.dropIn+"ExecStart=\nExecReload=\n"+own)
			s.Must("systemctl", "daemon-reload")
			s.Must(enable...)
			s.RunsFrom(s.Executable("1.0.0"))
			s.Must("systemctl", "restart", "teleport")
			s.RunsFrom(s.Executable("1.0.0"))
			host.Wait(t, patience, func() error {
				if in := s.Must("sh", "-c", "cat /run/teleport/teleport.pid || :"); strings.TrimSpace(in) != s.PID() {
					return fmt.Errorf("the PID file says %q, and the agent is %s", in, s.PID())
				}
				return nil
			})
		})
	}
}
