//go:build hosts

package takeover

import (
	"strings"
	"testing"

	"teleport-update/integration/cluster"
	"teleport-update/integration/scenes"
)

// servers are the ways in which a host runs servers of its cluster, or does not: what a drop-in of the agent's unit has, what
// stands in YAML, which the unit leads to, or in the usual configuration, and what else is there. says is the refusal.
var servers = []struct{ name, dropIn, yaml, usual, more, says string }{
	{name: "another configuration", dropIn: "START --config=YAML", yaml: "auth_service: {enabled: yes}", says: "(auth_service in YAML)"},
	{name: "a variable", dropIn: "Environment=TELEPORT_CONFIG_FILE=YAML\nSTART", yaml: "proxy_service: {enabled: yes}", says: "(proxy_service in YAML)"},
	{name: "roles", dropIn: "START --roles=node,auth", says: "(--roles=node,auth in the agent's unit)"},
	{name: "roles in a short flag", dropIn: "START -r auth,proxy", says: "(-r auth,proxy in the agent's unit)"},
	{name: "an auth server's database", dropIn: "START --data-dir /srv/agent", more: "mkdir -p /srv/agent/backend; touch /srv/agent/backend/sqlite.db",
		says: "/srv/agent/backend/sqlite.db is the database of an auth server"},
	{name: "an old configuration in the usual place", dropIn: "START --config=YAML", usual: "auth_service: {enabled: yes}"},
	{name: "an auth server's database that nothing uses", dropIn: "START --data-dir /srv/agent --config=YAML", yaml: "auth_service: {enabled: no}",
		more: "mkdir -p /srv/agent/backend; touch /srv/agent/backend/sqlite.db"},
	{name: "roles of an agent", dropIn: "START --roles=node,app"},
}

// A host that runs servers of its cluster is taken over only by somebody who says so, wherever the agent is told to run them.
func TestServersOfTheClusterAreSeenWhereTheUnitLeads(t *testing.T) {
	const yaml = "/etc/teleport/auth.yaml"
	s := newScene(t)
	s.Sound("1.0.0")
	a := scenes.PreExistingAgents["by hand"]
	s.RunPreExisting("0.9.0", a)
	usual := s.Read("/etc/teleport.yaml")
	s.Wants("1.0.0")
	for _, c := range servers {
		fill := strings.NewReplacer("START", "ExecStart=\nExecStart="+a.BinDir+"/teleport start --pid-file=/run/teleport.pid", "YAML", yaml).Replace
		s.Write(yaml, usual+c.yaml+"\n")
		s.Write("/etc/teleport.yaml", usual+c.usual+"\n")
		s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\n"+fill(c.dropIn)+"\n")
		s.Must("sh", "-ec", c.more+"\nsystemctl daemon-reload; systemctl restart teleport")
		s.RunsFrom(a.BinDir + "/teleport")
		s.Grows(0)
		before := s.Seen()
		enable := []string{s.Path, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--health-window", "1s"}
		if c.says == "" {
			s.Must(enable...)
			s.Must(s.Path, "uninstall", "--with-agent")
			s.RunPreExisting("0.9.0", a)
		} else {
			s.Fails(1, fill(c.says), enable...)
			if got := before.Became(s.Seen()); got != scenes.InPeace {
				t.Errorf("%s: the agent was %s", c.name, got)
			}
		}
		s.Must("rm", "-rf", "/srv/agent", "/etc/systemd/system/teleport.service.d")
	}
}

// A host may become a server of its cluster once it has a version, or was taken over as one: nothing is refused, and who
// changes the version hears of it.
func TestAChangeOfVersionOnAServerOfTheClusterIsWarnedOf(t *testing.T) {
	const says = "this host runs servers of the cluster itself, whose data are in no backup of the updater"
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0", "1.2.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	if out := s.Must(updater, "verify"); strings.Contains(out, says) {
		t.Errorf("verify says of an agent\n%s", out)
	}
	s.Write("/etc/teleport.yaml", s.Read("/etc/teleport.yaml")+"auth_service: {enabled: yes}\n")
	if out := s.Must(updater, "verify"); !strings.Contains(out, says+" (auth_service in /etc/teleport.yaml)") {
		t.Errorf("verify says\n%s", out)
	}
	for _, c := range []struct {
		version string
		command []string
	}{{"1.1.0", []string{updater, "update", "--now"}}, {"1.2.0", []string{updater, "pin", "1.2.0"}}} {
		s.Wants(c.version)
		if r := s.Try(c.command...); r.Code != 0 || !strings.Contains(r.Stderr, says) {
			t.Errorf("%s ends with %d and says\n%s", c.command, r.Code, r.Stderr)
		}
		s.Serves(c.version)
	}
}
