package installer

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
)

// A host of the cluster's own servers is taken over only by somebody who says so.
func TestAHostOfTheClustersServersIsRefused(t *testing.T) {
	for text, servers := range map[string]string{
		"":                                  "",
		"ssh_service: {enabled: yes}\n":     "",
		"auth_service: {enabled: no}\n":     "",
		"auth_service: {enabled: \"no\"}\n": "",
		"auth_service: {enabled: false}\nproxy_service: {enabled: off}\n": "",
		"auth_service:\n":                      "",
		"auth_service: {enabled: yes}\n":       "auth_service",
		"auth_service: {enabled: \"yes\"}\n":   "auth_service",
		"auth_service: {cluster_name: main}\n": "auth_service",
		"proxy_service: {enabled: true}\n":     "proxy_service",
		"{\"auth_service\":{\"enabled\":true},\"proxy_service\":{\"enabled\":\"on\"}}": "auth_service, proxy_service",
		"x: &s {enabled: yes}\nauth_service: *s\n":                                     "auth_service",
	} {
		path := t.TempDir() + "/teleport.yaml"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		agent, err := host.ReadAgentSettings(path)
		if err != nil {
			t.Fatal(err)
		}
		if agent.Servers != servers {
			t.Errorf("%q: servers %q; want %q", text, agent.Servers, servers)
		}
	}
}

// A proxy that was named is the host that the agent joins by, at any port and in any spelling;
// another one is refused.
func TestAProxyThatIsNotTheAgentsIsRefused(t *testing.T) {
	for _, tc := range []struct {
		given, agents string
		refused       bool
	}{
		{"a.example.com", "a.example.com:3080", false},
		{"https://A.example.com:443/", "a.example.com.:3080", false},
		{"[2001:db8::1]:443", "[2001:DB8::1]:3080", false},
		{"a.example.com", "", false},
		{"", "a.example.com", false},
		{"b.example.com", "a.example.com", true},
		{"a.example.com.evil.example", "a.example.com:443", true},
		{"127.0.0.1:3080", "a.example.com:443", true},
	} {
		err := askProxy(namedProxy{address: tc.given}, "", host.AgentSettings{Proxy: tc.agents}, "/etc/teleport.yaml")
		if (err != nil) != tc.refused {
			t.Errorf("--proxy %q where the agent has %q: %v", tc.given, tc.agents, err)
		}
		if err != nil && !strings.Contains(err.Error(), "--allow-proxy-conflict") {
			t.Error(err)
		}
	}
}

// Nothing is asked about where the agent names no proxy, nor about the find server that the
// host follows already: automation repeats its command, without the port that was found then.
func TestAProxyThatWasSettledIsNotAskedAbout(t *testing.T) {
	for text, refused := range map[string]bool{
		"proxy_server: a.example.com:443": true, "auth_server: a.example.com:3025": false,
		"auth_servers: [a.example.com:3025, c.example.com:3025]": false,
		// Agents of old join through a proxy that they call an auth server.
		"auth_server: a.example.com:443": true, "auth_server: https://a.example.com:3080/": true, "auth_servers: [\"[2001:db8::1]:443\"]": true,
		"auth_servers: [a.example.com:443, find.example.com:443, other.example.com:443]": false,
		// What is at none of the proxy's ports may be an auth server alone.
		"auth_server: a.example.com": false, "auth_server: a.example.com:8443": false, "auth_server: \"2001:db8::443\"": false,
	} {
		config := filepath.Join(t.TempDir(), "teleport.yaml")
		writeFile(t, config, "teleport:\n  "+text+"\n")
		agent, err := host.ReadAgentSettings(config)
		must(t, err)
		if err := askProxy(namedProxy{address: "find.example.com"}, "", agent, config); (err != nil) != refused {
			t.Errorf("%s: %v", text, err)
		}
		for _, kept := range []string{"find.example.com", "find.example.com:443", "https://find.example.com:3080"} {
			if err := askProxy(namedProxy{address: "find.example.com"}, kept, agent, config); err != nil {
				t.Errorf("%s, where the host asks %s: %v", text, kept, err)
			}
		}
		if err := askProxy(namedProxy{address: "other.example.com"}, "find.example.com:443", agent, config); (err != nil) != refused {
			t.Errorf("%s, another server than before: %v", text, err)
		}
	}
}

// What enable asks of the agent's configuration, it asks of the one that the agent's unit leads to.
func TestEnableAsksTheConfigurationOfTheAgent(t *testing.T) {
	for name, tc := range map[string]struct {
		usual, node, command string
		opts                 EnableOptions
		adopted              string // the proxy of the updater that is replaced
		active               string
		says                 string // empty: it goes on
	}{
		"servers":                              {node: "auth_service: {enabled: yes}", says: "itself (auth_service in NODE)"},
		"servers that are allowed":             {node: "auth_service: {enabled: yes}", opts: EnableOptions{AllowAuthServer: true}},
		"servers of a host that has a version": {node: "auth_service: {enabled: yes}", active: "1.0.0"},
		"servers of another time":              {usual: "auth_service: {enabled: yes}", node: "version: v3"},
		"a proxy": {node: "teleport: {proxy_server: \"a.example.com:443\"}", opts: EnableOptions{Proxy: "b.example.com"},
			says: "--proxy names b.example.com, and NODE names a.example.com"},
		"a proxy of the updater that is replaced": {node: "teleport: {proxy_server: \"a.example.com:443\"}", adopted: "b.example.com:443",
			says: "the updater that is replaced names b.example.com, and NODE names a.example.com: the host would run the version of another " +
				"cluster than its agent's; nothing was changed: name the right one with --proxy, or add --allow-proxy-conflict"},
		"a proxy of the updater that is replaced, allowed": {node: "teleport: {proxy_server: \"a.example.com:443\"}", adopted: "b.example.com",
			opts: EnableOptions{AllowProxyConflict: true}},
		"the same proxy as the updater's that is replaced": {node: "teleport: {proxy_server: \"a.example.com:443\"}", adopted: "a.example.com"},
		"a proxy of another time": {usual: "teleport: {proxy_server: \"b.example.com:443\"}", node: "teleport: {proxy_server: \"a.example.com:443\"}",
			opts: EnableOptions{Proxy: "a.example.com"}},
		"a place that cannot be told":                              {command: "--config=%h/node.yaml", says: "which only systemd can resolve; nothing was changed"},
		"a place that cannot be told of a host that has a version": {command: "--config=%h/node.yaml", active: "1.0.0"},
		"a file that is no YAML":                                   {node: "teleport: [", says: "NODE"},
	} {
		t.Run(name, func(t *testing.T) {
			i := testInstaller(t)
			node := filepath.Join(t.TempDir(), "node.yaml")
			if tc.usual != "" {
				writeFile(t, i.Machine.Host.Paths.AgentConfig, tc.usual+"\n")
			}
			writeFile(t, node, tc.node+"\n")
			writeFile(t, i.Machine.Host.Paths.Unit(), "[Service]\nExecStart=/bin/teleport start "+cmp.Or(tc.command, "--config="+node)+"\n")
			c := state.EmptyConfig()
			c.Spec.ActiveVersion = tc.active
			err := askAgentSettings(i, tc.opts, cmp.Or(tc.opts.Proxy, tc.adopted), c)
			if says := strings.ReplaceAll(tc.says, "NODE", node); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
				t.Errorf("%v; want %q", err, says)
			}
		})
	}
}
