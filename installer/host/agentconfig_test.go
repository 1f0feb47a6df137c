package host

import (
	"path/filepath"
	"strings"
	"teleport-update/installer/state"
	"testing"
)

func TestProxyAndGroupComeFromTheAgentWhenNotSaid(t *testing.T) {
	for _, tc := range []struct {
		name, config string
		spec         state.Spec
		proxy, group string
		fails        string
	}{
		{name: "both from the agent", config: "teleport:\n  proxy_server: a.example.com:443\n  upgrade_group: prod\n", proxy: "a.example.com:443", group: "prod"},
		{name: "what was said wins", config: "teleport:\n  proxy_server: a.example.com\n  upgrade_group: prod\n", spec: state.Spec{Proxy: "b.example.com", Group: "dev"}, proxy: "b.example.com", group: "dev"},
		{name: "only the group from the agent", config: "teleport:\n  upgrade_group: prod\n", spec: state.Spec{Proxy: "b.example.com"}, proxy: "b.example.com", group: "prod"},
		{name: "the agent's proxy without a port has the port that the agent takes", config: "teleport:\n  proxy_server: a.example.com\n  upgrade_group: prod\n", proxy: "a.example.com:3080", group: "prod"},
		{name: "an address of IPv6 without a port", config: "teleport:\n  proxy_server: '[2001:db8::1]'\n  upgrade_group: prod\n", proxy: "[2001:db8::1]:3080", group: "prod"},
		{name: "an auth server is a host only", config: "version: v3\nteleport:\n  auth_server: a.example.com:3025\n  upgrade_group: prod\n", proxy: "a.example.com:3080", group: "prod"},
		{name: "an auth server with another port", config: "teleport:\n  auth_server: a.example.com:443\n  upgrade_group: prod\n", proxy: "a.example.com:443", group: "prod"},
		{name: "auth servers of a file of old", config: "teleport:\n  auth_servers:\n  - a.example.com:3025\n  - b.example.com:3025\n  upgrade_group: prod\n", proxy: "a.example.com:3080", group: "prod"},
		{name: "nobody knows a proxy", config: "teleport: {}\n", fails: "no proxy address is known"},
		{name: "no agent's configuration", fails: "no proxy address is known"},
		{name: "a broken one matters when it is needed", config: "teleport: [", fails: "read the agent's configuration"},
		{name: "a broken one does not when it is not", config: "teleport: [", spec: state.Spec{Proxy: "b.example.com"}, proxy: "b.example.com"},
		{name: "an address that is none", config: "teleport:\n  proxy_server: 'https://x/y?z'\n", fails: "x/y"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			i := testHost(t)
			if tc.config != "" {
				writeFile(t, i.Paths.AgentConfig, tc.config)
			}
			spec := tc.spec
			err := i.ResolveProxy(&spec)
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Fatalf("got %v; want an error with %q", err, tc.fails)
				}
				return
			}
			if err != nil || spec.Proxy != tc.proxy || spec.Group != tc.group {
				t.Errorf("got %q, %q, %v; want %q, %q", spec.Proxy, spec.Group, err, tc.proxy, tc.group)
			}
		})
	}
}

// FuzzAgentSettings: the agent's own configuration is somebody else's.
func FuzzAgentSettings(f *testing.F) {
	f.Add([]byte("version: v3\nteleport:\n  proxy_server: proxy.example:443\n  upgrade_group: staging\n  data_dir: /var/lib/teleport\n"))
	f.Add([]byte("teleport: {proxy_server: [a], data_dir: &a [*a]}\n"))
	f.Add([]byte("teleport: !!binary x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "teleport.yaml")
		writeFile(t, path, string(data))
		if s, err := ReadAgentSettings(path); err != nil && s != (AgentSettings{}) {
			t.Errorf("%+v came with %v", s, err)
		}
	})
}
