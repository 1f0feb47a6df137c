//go:build hosts

package lifecycle

import (
	"strings"
	"testing"

	"teleport-update/integration/cluster"
	"teleport-update/integration/scenes"
)

const joinSecret = "a-secret-that-nobody-logs"

func TestANewHostsTokenIsWhereItsFirstStartLooks(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Wants("1.0.0")
	s.Must("rm", "/etc/teleport.yaml")
	s.Must("mkdir", "-p", "/var/lib/systemd/timers")
	s.Write("/root/token", joinSecret+"\n")
	before := s.Tree(scenes.TheHost...)

	s.Enable("--token-file", "/root/token")
	want := `# Written by teleport-update enable --token-file. It is yours to change.
auth_service:
    enabled: "no"
proxy_service:
    enabled: "no"
teleport:
    join_params:
        method: token
        token_name: /var/lib/teleport/token
    proxy_server: 127.0.0.1:3080
version: v3
`
	if got := s.Read("/etc/teleport.yaml"); got != want {
		t.Errorf("the configuration is\n%s\nwant\n%s", got, want)
	}
	if got := s.Read("/var/lib/teleport/token"); got != joinSecret+"\n" {
		t.Errorf("the token is %q", got)
	}
	for _, file := range []string{"/etc/teleport.yaml", "/var/lib/teleport/token"} {
		if info, err := s.Lstat(file); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v; want mode 0600", file, info, err)
		}
	}
	s.Must("systemctl", "enable", "--now", "teleport")
	s.Serves("1.0.0")
	// Another token, later.
	s.Write("/root/token", "another")
	s.Enable("--token-file", "/root/token")
	if got := s.Read("/var/lib/teleport/token"); got != "another\n" {
		t.Errorf("the token is %q", got)
	}
	if log := s.Log("") + s.Must(updater, "status", "--format", "json") + s.Read(store+"/updates.yaml") + s.Read(store+"/original/before.json"); strings.Contains(log, joinSecret) {
		t.Error("the token is told")
	}

	s.Must(updater, "uninstall", "--with-agent")
	s.Write("/root/token", joinSecret+"\n")
	s.Unchanged(before, s.Tree(scenes.TheHost...), "/var/lib/teleport")
	s.OnlyAgentsDataIsLeft()
}

func TestATokenGoesWhereTheConfigurationSays(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Wants("1.0.0")
	s.Write("/root/token", joinSecret)
	enable := []string{updater, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--token-file"}

	config := s.Read("/etc/teleport.yaml")
	s.Fails(1, "names no file for the join token; nothing was changed", append(enable, "/root/token")...)
	s.Fails(1, "no such file", append(enable, "/root/none")...)
	s.Write("/root/two", "two words")
	s.Fails(1, "does not hold one word", append(enable, "/root/two")...)
	if s.Asked.Load() > 0 || s.Exists(store+"/updates.yaml") {
		t.Error("something was done")
	}
	for _, named := range []string{"  auth_token: /etc/join/token\n", "  join_params:\n    method: token\n    token_name: /etc/join/other\n"} {
		s.Write("/etc/teleport.yaml", config+named)
		s.Enable("--token-file", "/root/token")
		file := strings.TrimSpace(named[strings.LastIndex(named, " "):])
		if info, err := s.Lstat(file); err != nil || info.Mode() != 0o600 || s.Read(file) != joinSecret+"\n" {
			t.Errorf("%s: %v, %v", file, info, err)
		}
		if got := s.Read("/etc/teleport.yaml"); got != config+named {
			t.Errorf("the configuration was changed:\n%s", got)
		}
	}
}
