//go:build hosts

package database

import (
	"fmt"
	"strings"
	"testing"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// ledBy are the ways in which a unit leads the agent to its data, DIR, and to a configuration that names
// them, YAML; start is a drop-in's command without arguments. says is the refusal of a way that cannot be read.
var ledBy = []struct{ name, dropIn, more, says string }{
	{name: "a folder", dropIn: "START --data-dir DIR"},
	{name: "a configuration", dropIn: "START --config=YAML"},
	{name: "joined flags", dropIn: "START -cYAML"},
	{name: "a variable", dropIn: "Environment=TELEPORT_CONFIG_FILE=YAML\nSTART"},
	{name: "a variable in quotes", dropIn: "Environment=\"TELEPORT_CONFIG_FILE=YAML\" X=1\nSTART"},
	{name: "the agent's environment file", dropIn: "START", more: "echo 'TELEPORT_CONFIG_FILE=YAML' >/etc/default/teleport"},
	{name: "options in a file", dropIn: "EnvironmentFile=/etc/agent.*\nSTART $OPTIONS", more: `echo 'OPTIONS="--data-dir \"DIR\""' >/etc/agent.env`},
	{name: "a comment inside of the command", dropIn: "START \\\n# where the data are\n  --data-dir DIR"},
	{name: "a drop-in of all services", dropIn: "START", more: `mkdir -p /etc/systemd/system/service.d; printf '[Service]\nEnvironment=TELEPORT_CONFIG_FILE=YAML\n' >/etc/systemd/system/service.d/10.conf`},
	{name: "a drop-in until the next boot", dropIn: "Restart=on-failure", more: `mkdir -p /run/systemd/system/teleport.service.d; printf '[Service]\nEXEC --data-dir DIR\n' >/run/systemd/system/teleport.service.d/95.conf`},
	{name: "a specifier", dropIn: "START --data-dir %S/DIR", more: "mkdir -p /var/lib/srv; ln -sfn DIR /var/lib/DIR"},
	{name: "a specifier of the user", dropIn: "START --data-dir %hDIR", more: "mkdir -p /root/srv; ln -sfn DIR /rootDIR", says: "which only systemd can resolve"},
	{name: "a relative folder", dropIn: "WorkingDirectory=/srv\nSTART --data-dir NAME", says: "depends on the folder that it is started in"},
	{name: "a relative folder in the configuration", dropIn: "WorkingDirectory=/srv\nSTART --config YAML", more: "sed -i s,/srv/,, YAML", says: "depends on the folder that the agent is started in"},
	{name: "a configuration as text", dropIn: "START --config /etc/teleport.yaml", more: `echo "TELEPORT_CONFIG=$(base64 -w0 YAML)" >/etc/default/teleport`, says: "TELEPORT_CONFIG"},
	{name: "a variable of systemd's own", dropIn: "START", more: "systemctl set-environment TELEPORT_CONFIG_FILE=YAML", says: "it has the database DIR/proc/sqlite.db open"},
}

// However the unit leads the agent to its data, the database that the agent has is the one that is backed up
// and restored; or the change is refused before anything is done.
func TestTheDatabaseIsTheOneThatTheUnitLeadsTo(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Variant: stamp.MigratesThenExits, Schema: 2})
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Grows(3) // an old database stays in the usual place
	s.Wants("1.1.0")
	for n, c := range ledBy {
		name := fmt.Sprintf("agent%d", n)
		const exec = "ExecStart=\nExecStart=" + scenes.LinkDir + "/teleport start --pid-file=/run/teleport.pid"
		fill := strings.NewReplacer("START", exec, "EXEC", strings.ReplaceAll(exec, "\n", `\n`), "DIR", "/srv/"+name, "YAML", "/srv/"+name+".yaml", "NAME", name).Replace
		s.Write("/srv/"+name+".yaml", "teleport:\n  diag_addr: 127.0.0.1:3000\n  data_dir: /srv/"+name+"\n")
		s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\n"+fill(c.dropIn)+"\n")
		s.Must("sh", "-ec", "systemctl stop teleport; mkdir -p /srv/"+name+"\n"+fill(c.more)+"\nsystemctl daemon-reload; systemctl start teleport")
		host.Wait(t, patience, func() error {
			if !s.Exists("/srv/" + name + "/proc/sqlite.db") {
				return fmt.Errorf("%s: the agent has no database in /srv/%s", c.name, name)
			}
			return nil
		})
		s.Grows(3)
		before := s.Seen()
		if says := fill(c.says); says != "" {
			s.Fails(1, says, updater, "update", "--now")
			if got := before.Became(s.Seen()); got != scenes.InPeace {
				t.Errorf("%s: the agent was %s", c.name, got)
			}
		} else {
			s.Fails(1, "was not healthy and was rolled back", updater, "update", "--now")
		}
		s.Linked("1.0.0")
		if live := s.LiveIn("/srv/" + name); live.Schema != 1 || live.Rows != live.Last || live.Integrity != "ok" {
			t.Errorf("%s: the agent's database holds %v", c.name, live)
		}
		if saved := s.Saved("1.0.0"); c.says == "" && (saved.Last < 3 || saved.Last > s.LiveIn("/srv/"+name).Last) {
			t.Errorf("%s: the backup holds %v", c.name, saved)
		}
		s.Closed()
		s.Must("sh", "-c", "rm -rf /etc/default/teleport /etc/agent.env /etc/systemd/system/service.d /run/systemd/system/teleport.service.d; systemctl unset-environment TELEPORT_CONFIG_FILE")
	}
}

// A person may have prepared a move that the agent has not made: its unit, with variables of a file, leads to another database
// than the one that it has open, which a reloaded version would migrate without a backup.
func TestADatabaseThatIsToMoveIsNotMigratedBeforeTheMove(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Schema: 2})
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Write("/etc/moves.yaml", "teleport:\n  diag_addr: 127.0.0.1:3000\n  data_dir: /srv/old\n")
	s.Wants("1.1.0")
	for _, c := range []struct{ argument, was, is string }{
		{"--data-dir=${WHERE}", "/srv/old", "/srv/new"},
		{"--config=${WHERE}", "/etc/moves.yaml", "/etc/moved.yaml"},
		{"$WHERE", "--data-dir=/srv/old", "--data-dir=/srv/new"},
	} {
		for said, prepare := range map[string]string{
			"and nothing is at /srv/new/proc/sqlite.db":                  "rm -rf /srv/new",
			"its unit and configuration lead to /srv/new/proc/sqlite.db": "rm -rf /srv/new; cp -a /srv/old /srv/new",
		} {
			s.Write("/etc/agent.env", "WHERE="+c.was+"\n")
			s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\nEnvironmentFile=/etc/agent.env\nExecStart=\nExecStart="+scenes.LinkDir+
				"/teleport start "+c.argument+" --pid-file=/run/teleport.pid\n")
			s.Must("sh", "-ec", "systemctl daemon-reload; systemctl restart teleport")
			host.Wait(t, patience, func() error {
				if !s.Exists("/srv/old/proc/sqlite.db") {
					return fmt.Errorf("the agent has no database in /srv/old")
				}
				return nil
			})
			s.Grows(1)
			s.Must("sh", "-ec", "sed s,/srv/old,/srv/new, /etc/moves.yaml >/etc/moved.yaml\n"+prepare)
			s.Write("/etc/agent.env", "WHERE="+c.is+"\n")
			before := s.Seen()
			s.Fails(1, said, updater, "update", "--now")
			s.Linked("1.0.0")
			if got := before.Became(s.Seen()); got != scenes.InPeace {
				t.Errorf("%s, %s: the agent was %s", c.argument, prepare, got)
			}
			if live := s.LiveIn("/srv/old"); live.Schema != 1 {
				t.Fatalf("%s, %s: the agent's database holds %v", c.argument, prepare, live)
			}
		}
	}
}

// A reload keeps the arguments of before, so a version may be healthy that the next boot starts on another database.
func TestAVersionWhoseUnitLeadsElsewhereIsUndone(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	unit := strings.Replace(release.Unit{}.Text(), " --pid-file", " --data-dir /srv/agent --pid-file", 1)
	s.Release(release.Spec{Version: "1.1.0", Files: []release.File{{Name: "examples/systemd/teleport.service", Data: []byte(unit)}}})
	s.RunsOn("1.0.0", "--health-window", "1s")
	before := s.Seen()
	s.Wants("1.1.0")
	s.Fails(1, "the unit that version 1.1.0 brings leads the agent to the database /srv/agent/proc/sqlite.db, and its own is "+scenes.LiveFile,
		updater, "update", "--now")
	s.Serves("1.0.0")
	if got := before.Became(s.Seen()); got != scenes.InPeace {
		t.Errorf("the agent was %s", got)
	}
	if r := s.Status(); scenes.Text(r.FailedVersion) != "1.1.0" {
		t.Errorf("status says that %q failed, and a run of the timer would try it again", scenes.Text(r.FailedVersion))
	}
}

// What enable was told of the agent's configuration is in force for the timer's runs, for a later command, and for the
// recovery at boot: none of them is told again.
func TestAnAgentConfigThatEnableWasGivenStays(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Variant: stamp.MigratesThenExits, Schema: 2})
	s.Release(release.Spec{Version: "1.2.0", Schema: 2})
	s.Write("/etc/teleport-node.yaml", "teleport:\n  diag_addr: 127.0.0.1:3000\n  data_dir: /srv/agent\n")
	s.Must("rm", "/etc/teleport.yaml")
	s.Wants("1.0.0")
	s.Must(s.Path, "--agent-config", "/etc/teleport-node.yaml", "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--health-window",
		scenes.Window)
	s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\nEnvironmentFile=\nExecStart=\nExecStart="+scenes.LinkDir+
		"/teleport start --config /etc/teleport-node.yaml --pid-file=/run/teleport.pid\n")
	s.Must("systemctl", "daemon-reload")
	s.Must("systemctl", "enable", "--now", "teleport")
	s.Serves("1.0.0")
	rows := s.Grows(3)
	whole := func(when string) {
		t.Helper()
		s.Serves("1.0.0")
		s.Grows(rows)
		if live := s.LiveIn("/srv/agent"); live.Schema != 1 || live.Rows != live.Last || live.Integrity != "ok" {
			t.Errorf("%s: the agent's database holds %v", when, live)
		}
	}
	s.Wants("1.1.0")
	s.Tick()
	whole("after a run of the timer")
	s.Fails(1, "was not healthy and was rolled back", updater, "update", "--now")
	whole("after a command")
	s.Wants("1.2.0")
	s.KilledInMidWatch("1.2.0")
	s.Must("sh", "-c", "systemctl stop teleport; sync")
	s.Check(s.Kill())
	s.Check(s.Boot(t.Context()))
	s.Wants("1.0.0")
	s.Tick()
	whole("after the recovery at boot")
}
