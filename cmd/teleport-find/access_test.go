package main

import (
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// From another machine, commands do what the role of the token may do, and a dry run does nothing.
func TestCommandsFromAnotherMachine(t *testing.T) {
	s := newStation(t, map[string]int{"dev": 2, "staging": 2, "prod": 2})
	ca := filepath.Join(s.dir, "ca.pem")
	write(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.admin.Certificate().Raw})))
	write(t, filepath.Join(s.dir, "groups.yaml"), schedule)
	token := func(role string) string {
		t.Helper()
		if out := s.run("token add " + role + " --role " + role + " --dry-run"); !strings.Contains(out, "would be made, with the role "+role) {
			t.Errorf("a dry run: %s", out)
		}
		out := s.run("token add " + role + " --role " + role)
		words := strings.Fields(out)
		file := filepath.Join(s.dir, role)
		writeSecret(t, file, words[len(words)-1]+"\n")
		return "--server " + s.admin.URL + " --server-ca-file " + ca + " --access-token-file " + file + " "
	}
	viewer, operator, versions, config, admin := token("viewer"), token("operator"), token("version-admin"), token("config-admin"), token("admin")
	// Over the network alone: the socket of this machine must have no part in it.
	socket := os.Getenv("TELEPORT_FIND_ADMIN_SOCKET")
	t.Setenv("TELEPORT_FIND_ADMIN_SOCKET", filepath.Join(s.dir, "none.sock"))
	for _, step := range []struct{ as, command, want string }{
		{viewer, "apply -f groups.yaml", "this is for the role config-admin or admin, and the access token has the role viewer; nothing was written\n(exit code 1)"},
		{versions, "apply -f groups.yaml", "this is for the role config-admin or admin, and the access token has the role version-admin"},
		{config, "apply -f groups.yaml --dry-run", "autoupdate_config would be created (a dry run)"},
		{config, "apply -f groups.yaml", "autoupdate_config created"},
		{operator, "set-version 15.2.0", "this is for the role version-admin"},
		{versions, "set-version 15.2.0 --reason monday", "autoupdate_version created"},
		{viewer, "status", "waiting"},
		{viewer, "rollout done dev", "this is for the role operator"},
		{operator, "rollout done dev --dry-run", "dev would be done"},
		{operator, "rollout done dev", "dev is done"},
		{config, "set-version 15.2.0", "this is for the role version-admin or admin, and the access token has the role config-admin"},
		{versions, "mode disabled", "this is for the role config-admin or admin"},
		{viewer, "mode suspended", "this is for the role operator, version-admin, config-admin or admin"},
		{operator, "mode suspended", "autoupdate_config changed"},
		{operator, "mode enabled", "this is for the role config-admin or admin, and the access token has the role operator"},
		{admin, "mode enabled", "autoupdate_config changed"},
		{admin, "mode suspended", "autoupdate_config changed"},
		{config, "token add web --dry-run", "token web would be made, for hosts of all groups (a dry run)"},
		{config, "token add web", "token web was made"},
		{config, "token revoke web --dry-run", "token web would be revoked; "},
		{viewer, "token", "web"},
		{config, "token revoke web", "token web was revoked; "},
		{config, "token revoke-host " + s.hosts["dev-1"].id + " --dry-run", "would be revoked"},
		{config, "token revoke-host " + s.hosts["dev-1"].id, "was revoked, and it does not report any more"},
		{config, "token add more --role viewer", "made and revoked over the socket of the server's machine only"},
		{viewer, "history", "token version-admin"},
		{strings.Replace(viewer, "https:", "http:", 1), "status", "is that the admin API of a find server?"},
		{"--server http://192.0.2.1 --access-token-file " + filepath.Join(s.dir, "viewer") + " ", "status", "an access token is sent over https only"},
		{"--server https://192.0.2.1/x --access-token-file x ", "status", "is no URL such as"},
		{"--server https://192.0.2.1 ", "status", "--server needs --access-token-file"},
		{"--server " + s.admin.URL + " --access-token-file " + filepath.Join(s.dir, "viewer") + " ", "status", "certificate"},
	} {
		if out := s.run(step.as + step.command); !strings.Contains(out, step.want) {
			t.Errorf("%s with %s prints\n%swant %q", step.command, step.as, out, step.want)
		}
	}
	t.Setenv("TELEPORT_FIND_ADMIN_SOCKET", socket)
	if out := s.run("token"); strings.Count(out, "access: ") != 5 || !strings.Contains(out, "version-admin  access: version-admin  never") {
		t.Errorf("the tokens are\n%s", out)
	}
	s.run("token revoke --access viewer")
	if out := s.run(viewer + "status"); !strings.Contains(out, "there is no such access token") {
		t.Errorf("after it was revoked:\n%s", out)
	}
}

// The server itself listens for them, with the certificate of hosts.
func TestServeTakesCommandsFromOtherMachines(t *testing.T) {
	if testing.Short() {
		t.Skip("servers are started and stopped again and again")
	}
	a := &adminRun{t: t, dir: t.TempDir()}
	ca := filepath.Join(a.dir, "ca.pem")
	s := serveProcess(t, nil, "--listen", "127.0.0.1:0", "--self-signed", "--ca-out", ca, "--store", filepath.Join(a.dir, "store", "store.db"),
		"--admin-socket", a.socket(), "--admin-listen", "127.0.0.1:0")
	address := s.logged(`to those who have an access token" address=(\S+)`)
	code, token := a.run("", "token", "add", "ci", "--role", "version-admin", "-o", "json")
	_, token, _ = strings.Cut(token, `"token":"`)
	token, _, _ = strings.Cut(token, `"`)
	if code != 0 || token == "" {
		t.Fatalf("%d %s", code, token)
	}
	writeSecret(t, filepath.Join(a.dir, "token"), token)
	there := []string{"--server", "https://" + address, "--server-ca-file", ca, "--access-token-file", filepath.Join(a.dir, "token")}
	if code, out := a.run("", append(there, "set-version", "15.1.1", "--schedule", "immediate")...); code != 0 || !strings.Contains(out, "autoupdate_version created") {
		t.Errorf("set-version from another machine: %d %s", code, out)
	}
	if code, out := a.run("", append(there, "mode", "enabled")...); code != 1 || !strings.Contains(out, "this is for the role config-admin") {
		t.Errorf("enable from another machine: %d %s", code, out)
	}
	if strings.Contains(s.log.String(), token) {
		t.Error("the log tells the token")
	}
}

func writeSecret(t *testing.T, path, content string) {
	t.Helper()
	write(t, path, content)
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

// An access token that others than the owner of its file may read or write is not used.
func TestAnAccessTokenIsForItsOwnerAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	writeSecret(t, file, "teleport-find-access-x\n")
	for mode := range os.FileMode(0o1000) {
		if mode&0o400 == 0 {
			continue
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		token, err := readToken(file)
		if others := mode&0o077 != 0; others != (err != nil) || others && !strings.Contains(err.Error(), "chmod 600 "+file) {
			t.Errorf("mode %04o: %q, %v", mode, token, err)
		}
	}
}
