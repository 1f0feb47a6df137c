package host

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
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
		{name: "a list of proxies", config: "teleport:\n  proxy_server: [a.example.com:443, b.example.com:443]\n", fails: "line 2: a list is not what belongs there"},
		{name: "a list of proxies in lines", config: "teleport:\n  proxy_server:\n  - a.example.com:443\n", fails: "a list is not what belongs there"},
		{name: "a list of groups", config: "teleport:\n  proxy_server: a.example.com:443\n  upgrade_group: [a]\n", fails: "a list is not what belongs there"},
		{name: "a placeholder that was left", config: "teleport:\n  proxy_server: {{ proxy }}\n", fails: "line 2: more settings are not what belongs there"},
		{name: "a scheme of Teleport's own", config: "teleport:\n  proxy_server: tcp://a.example.com:3080\n", fails: "leave out tcp://"},
		{name: "several auth servers in one text", config: "teleport:\n  auth_servers: a.example.com:3025, b.example.com:3025\n", fails: "is a list"},
		{name: "a path", config: "teleport:\n  proxy_server: https://a.example.com/web\n", fails: "\"https://a.example.com/web\": it must not contain a path"},
		{name: "a tab", config: "teleport:\n\tproxy_server: a.example.com\n", fails: "line 2 begins with a tab"},
		{name: "another encoding", config: "# \xe9quipe\nteleport:\n  proxy_server: a.example.com\n", fails: "not in UTF-8"},
		{name: "UTF-16 of PowerShell", config: "\xff\xfe" + wide("teleport:\r\n  proxy_server: a.example.com:443\r\n  upgrade_group: dev\r\n"), proxy: "a.example.com:443", group: "dev"},
		{name: "a tab in UTF-16", config: "\xff\xfe" + wide("teleport:\n\tproxy_server: a.example.com\n"), fails: "line 2 begins with a tab"},
		{name: "UTF-16 without its mark", config: wide("teleport:\n  proxy_server: a.example.com\n"), fails: "save it in UTF-8"},
		{name: "a group that is a number", config: "teleport:\n  proxy_server: a.example.com:443\n  upgrade_group: 7\n", proxy: "a.example.com:443", group: "7"},
		{name: "a byte order mark and line ends of Windows", config: "\xef\xbb\xbfteleport:\r\n  proxy_server: a.example.com:443\r\n", proxy: "a.example.com:443"},
		{name: "an alias", config: "x: &p a.example.com:443\nteleport:\n  proxy_server: *p\n", proxy: "a.example.com:443"},
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

// wide is ASCII in UTF-16, little-endian and without its mark.
func wide(s string) string { return strings.Join(strings.Split(s, ""), "\x00") + "\x00" }

// Who can write the agent's configuration steers the host by it, unless root alone can:
// neither where the host asks is taken from it, nor in which group. Whatever was said
// otherwise holds.
func TestAnotherUsersConfigurationSteersNoHost(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to others")
	}
	theirs := map[string]func(file string) error{
		"the file is another user's":   func(file string) error { return os.Chown(file, 1234, 0) },
		"everybody may write the file": func(file string) error { return os.Chmod(file, 0o666) },
		"a group may write the file":   func(file string) error { return errors.Join(os.Chown(file, 0, 1234), os.Chmod(file, 0o664)) },
		"the folder is another user's": func(file string) error { return os.Chown(filepath.Dir(file), 1234, 0) },
		"a link of another user's leads to a file": func(file string) error {
			return errors.Join(os.Rename(file, file+".own"), os.Symlink(file+".own", file), os.Lchown(file, 1234, 0))
		},
	}
	for _, names := range []string{"proxy_server: a.example.com", "upgrade_group: prod", "proxy_server: a.example.com\n  upgrade_group: prod"} {
		for _, said := range []state.Spec{{}, {Proxy: "b.example.com"}, {Group: "dev"}, {Proxy: "b.example.com", Group: "dev"}} {
			for how, change := range theirs {
				i := testHost(t)
				writeFile(t, i.Paths.AgentConfig, "teleport:\n  "+names+"\n")
				if err := change(i.Paths.AgentConfig); err != nil {
					t.Fatal(err)
				}
				spec := said
				err := i.ResolveProxy(&spec)
				if spec.Proxy != said.Proxy || spec.Group != said.Group || (err == nil) != (said.Proxy != "") {
					t.Errorf("%s, which names %q; said was %q, %q: %q, %q, %v", how, names, said.Proxy, said.Group, spec.Proxy, spec.Group, err)
				}
			}
		}
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
		if s, err := ReadAgentSettings(path); err != nil && !reflect.DeepEqual(s, AgentSettings{}) {
			t.Errorf("%+v came with %v", s, err)
		}
	})
}
