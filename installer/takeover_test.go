package installer

import (
	"os"
	"strings"
	"testing"

	"teleport-update/installer/host"
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
		err = askServers(agent, false)
		if (err != nil) != (servers != "") || err != nil && !strings.Contains(err.Error(), "("+servers+" in") {
			t.Errorf("%q: %v; want servers %q", text, err, servers)
		}
		if err := askServers(agent, true); err != nil {
			t.Errorf("%q, with --allow-auth-server: %v", text, err)
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
		err := askProxy(tc.given, host.AgentSettings{Proxy: tc.agents}, "/etc/teleport.yaml")
		if (err != nil) != tc.refused {
			t.Errorf("--proxy %q where the agent has %q: %v", tc.given, tc.agents, err)
		}
		if err != nil && !strings.Contains(err.Error(), "--allow-proxy-conflict") {
			t.Error(err)
		}
	}
}
