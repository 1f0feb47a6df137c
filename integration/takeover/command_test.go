//go:build hosts

package takeover

import (
	"fmt"
	"strings"
	"testing"

	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
)

// commands are the ways in which a unit of somebody's own leads its agent to its data, DIR, or to a configuration that
// names them, YAML. unit stands in the section [Service]; says is the refusal of a command that the version's unit
// would contradict or could not have.
var commands = []struct{ name, unit, more, says string }{
	{name: "lines that go on", unit: "ExecStart=TELEPORT start \\\n  --pid-file=/run/teleport.pid \\\n# where the data are\n  --data-dir=DIR"},
	{name: "a folder in quotes", unit: `ExecStart=TELEPORT start --pid-file=/run/teleport.pid --data-dir "DIR"`},
	{name: "spaces around the equals sign", unit: "ExecStart = TELEPORT start --pid-file=/run/teleport.pid --data-dir=DIR"},
	{name: "a variable of a file in quotes", unit: "EnvironmentFile=/etc/agent.env\nExecStart=TELEPORT start --pid-file=/run/teleport.pid \"--data-dir=${WHERE}\"",
		more: "echo WHERE=DIR >/etc/agent.env"},
	{name: "a drop-in of several lines", unit: "ExecStart=TELEPORT start --config=YAML --pid-file=/run/teleport.pid",
		more: `mkdir -p /etc/systemd/system/teleport.service.d
printf '[Service]\nExecStart=\nExecStart=TELEPORT start \\\n  --pid-file=/run/teleport.pid \\\n  --data-dir "DIR"\n' >/etc/systemd/system/teleport.service.d/own.conf`},
	{name: "a configuration in quotes", unit: `ExecStart=TELEPORT start --config "YAML" --pid-file=/run/teleport.pid`,
		says: "the agent is started with --config YAML, and version 1.0.0 says otherwise in its unit"},
	{name: "a configuration in the next line", unit: "ExecStart=TELEPORT start \\\n --config=YAML --pid-file=/run/teleport.pid",
		says: "the agent is started with --config=YAML, and version 1.0.0 says otherwise in its unit"},
	{name: "a variable of the unit", unit: "Environment=TELEPORT_CONFIG_FILE=YAML\nExecStart=TELEPORT start --pid-file=/run/teleport.pid",
		says: "the agent's unit leads it to --config YAML, and with the unit of version 1.0.0 that would be --config /etc/teleport.yaml"},
	{name: "a variable of a file", unit: "EnvironmentFile=/etc/agent.env\nExecStart=TELEPORT start --pid-file=/run/teleport.pid",
		more: "echo TELEPORT_CONFIG_FILE=YAML >/etc/agent.env",
		says: "the agent's unit leads it to --config YAML, and with the unit of version 1.0.0 that would be --config /etc/teleport.yaml"},
	{name: "a value with a space", unit: `ExecStart=TELEPORT start --pid-file=/run/teleport.pid "--data-dir=DIR of the agent"`,
		more: `mkdir -p "DIR of the agent"; ln -sfn "DIR of the agent" DIR`,
		says: `the agent is started with "--data-dir=DIR of the agent", which cannot be written into the unit of version 1.0.0`},
	{name: "no configuration at all", unit: "ExecStart=TELEPORT start --pid-file=/run/teleport.pid --data-dir=DIR", more: "rm /etc/teleport.yaml",
		says: "/etc/teleport.yaml, with which the agent's unit starts it, is missing"},
}

// The unit of a version leads the agent where the unit before led it, however that is written, and after a boot, too; or
// nothing is changed.
func TestAnAgentIsLedToItsDataAsBefore(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	a := scenes.PreExistingAgents["by hand"]
	s.RunPreExisting("0.9.0", a)
	s.Wants("1.0.0")
	for n, c := range commands {
		dir := fmt.Sprintf("/srv/agent%d", n)
		fill := strings.NewReplacer("TELEPORT_", "TELEPORT_", "TELEPORT", a.BinDir+"/teleport", "DIR", dir, "YAML", dir+".yaml").Replace
		s.Write(dir+".yaml", "teleport:\n  diag_addr: 127.0.0.1:3000\n  data_dir: "+dir+"\n")
		s.Write(a.UnitDir+"/teleport.service", "[Service]\nRestart=always\nRestartSec=300ms\n"+fill(c.unit)+
			"\nPIDFile=/run/teleport.pid\nExecReload=/bin/kill -HUP $MAINPID\n[Install]\nWantedBy=multi-user.target\n")
		s.Must("sh", "-ec", "systemctl stop teleport; "+fill(c.more)+"\nsystemctl daemon-reload; systemctl start teleport")
		host.Wait(t, patience, func() error {
			if !s.Exists(dir + "/proc/sqlite.db") {
				return fmt.Errorf("%s: the agent has no database in %s", c.name, dir)
			}
			return nil
		})
		rows := s.Grows(3)
		if says := fill(c.says); says != "" {
			before, unit := s.Seen(), s.Read(a.UnitDir+"/teleport.service")
			s.Fails(1, says, s.Path, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--health-window", "1s")
			if got := before.Became(s.Seen()); got != scenes.InPeace || s.Read(a.UnitDir+"/teleport.service") != unit {
				t.Errorf("%s: the agent was %s, and its unit is\n%s", c.name, got, s.Read(a.UnitDir+"/teleport.service"))
			}
		} else {
			s.Enable("--health-window", "1s")
			s.Must("systemctl", "restart", "teleport")
			s.RunsFrom(s.Executable("1.0.0"))
			if next := s.Grows(rows); next <= rows {
				t.Errorf("%s: the agent has written row %d, and had %d before", c.name, next, rows)
			}
			if live := s.LiveIn(dir); live.ByVersion["1.0.0"] == 0 {
				t.Errorf("%s: version 1.0.0 has written nothing into %s: %v", c.name, dir, live)
			}
			s.Must(s.Path, "uninstall", "--with-agent")
			s.RunPreExisting("0.9.0", a)
		}
		s.Must("rm", "-rf", "/etc/agent.env", "/etc/systemd/system/teleport.service.d")
	}
}

// A shell that starts the agent has its arguments, and what it sets before. A package's unit counts also if the links go
// elsewhere.
func TestACommandWhoseArgumentsCannotBeKeptIsRefused(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	a := scenes.PreExistingAgents["by a package"]
	s.RunPreExisting("0.9.0", a)
	s.Must("sed", "-i", "s|^ExecStart=\\(.*\\)|ExecStart=/bin/sh -c 'exec \\1 --roles=node'|", a.UnitDir+"/teleport.service")
	s.Must("systemctl", "daemon-reload")
	s.Wants("1.0.0")
	before, unit := s.Seen(), s.Read(a.UnitDir+"/teleport.service")
	for _, command := range [][]string{{s.Path, "enable"}, {s.Path, "--link-dir", "/opt/agent/bin", "enable"}} {
		command = append(command, "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL)
		s.Fails(1, "the agent's unit runs /bin/sh, and not `teleport start …` itself", command...)
	}
	if got := before.Became(s.Seen()); got != scenes.InPeace || s.Read(a.UnitDir+"/teleport.service") != unit {
		t.Errorf("the agent was %s, and its unit is\n%s", got, s.Read(a.UnitDir+"/teleport.service"))
	}
}
