package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"teleport-update/find"
	releases "teleport-update/internal/version"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if binary, err := built(); err == nil {
		os.RemoveAll(filepath.Dir(binary))
	}
	os.Exit(code)
}

// One command is a server: its store is in memory, lets hosts update at once, and takes changes until the server stops.
func TestServeWithoutAStoreIsOneCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("servers are started and stopped again and again")
	}
	a := &adminRun{t: t, dir: t.TempDir()}
	s := serveProcess(t, nil, "--listen", "127.0.0.1:0", "--agent-version", "v15.1.1", "--edition", "enterprise", "--jitter", "30", "--admin-socket", a.socket())
	for _, group := range []string{"", "staging"} {
		if got, want := s.ask(group), (find.Answer{Version: "15.1.1", Edition: releases.Enterprise, AutoUpdate: true, Jitter: 30 * time.Second}); got != want {
			t.Errorf("group %q is told %+v; want %+v", group, got, want)
		}
	}
	if code, out := a.run("", "set-version", "16.0.0"); code != 0 || s.ask("").Version != "16.0.0" {
		t.Errorf("a change ends with %d, and hosts are told %s\n%s", code, s.ask("").Version, out)
	}
	if code, out := a.run("", "mode", "suspended"); code != 0 || s.ask("").AutoUpdate {
		t.Errorf("suspended ends with %d, and hosts are told %+v\n%s", code, s.ask(""), out)
	}
	if code, out := a.run("", "history"); code != 0 || strings.Count(out, "serve ") != 2 {
		t.Errorf("the history is\n%s", out)
	}
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.logged("reloading, as SIGHUP asks()")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: exit code %d\n%s", code, s.log.String())
	}
	for _, want := range []string{"the store is in memory: what is set ends with the server", "msg=serving version=1.2.3-test", `store="in memory"`, "msg=stopped"} {
		if !strings.Contains(s.log.String(), want) {
			t.Errorf("no %s in the log:\n%s", want, s.log.String())
		}
	}
}

// --agent-version is for a store that nobody has used yet: there is no host to wait for. It passes over no group of another store.
func TestAgentVersionIsForAFreshStore(t *testing.T) {
	if testing.Short() {
		t.Skip("servers are started and stopped again and again")
	}
	a := &adminRun{t: t, dir: t.TempDir()}
	start := func(version string) *process {
		return serveProcess(t, nil, "--listen", "127.0.0.1:0", "--store", filepath.Join(a.dir, "store", "store.db"), "--admin-socket", a.socket(), "--agent-version", version)
	}
	s := start("15.1.0")
	if got := s.ask(""); got.Version != "15.1.0" || got.AutoUpdate {
		t.Errorf("of a new store, hosts are told %+v", got)
	}
	if code, out := a.run("", "mode", "enabled"); code != 0 || !s.ask("").AutoUpdate {
		t.Errorf("enabled ends with %d, and hosts are told %+v\n%s", code, s.ask(""), out)
	}
	if code, out := a.run("", "status"); code != 0 || strings.Contains(out, "25 minutes") {
		t.Errorf("status ends with %d\n%s", code, out)
	}
	s.stop(syscall.SIGTERM)
	s = start("15.2.0")
	if got := s.ask(""); got.Version != "15.1.0" || !got.AutoUpdate {
		t.Errorf("of a store with a version, hosts are told %+v", got)
	}
	s.logged(`msg="--agent-version is for a store that nobody has used yet: (.*)" `)
	if code, out := a.run("", "set-version", "--newest"); code != 0 {
		t.Errorf("set-version --newest ends with %d\n%s", code, out)
	}
	s.stop(syscall.SIGTERM)
	s = start("15.2.0")
	if got := s.ask(""); got.Version != "" || got.AutoUpdate {
		t.Errorf("of a used store without a version, hosts are told %+v", got)
	}
	s.logged(`msg="--agent-version is for a store that nobody has used yet: (.*)" `)
}

func TestServeReleasesWithItsOwnCA(t *testing.T) {
	dir := t.TempDir()
	const tarball = "teleport-ent-v15.1.1-linux-amd64-bin.tar.gz"
	write(t, filepath.Join(dir, tarball), "tarball")
	write(t, filepath.Join(dir, tarball+".sha256"), "03b3c9b1b3b0b0b0  "+tarball+"\n")
	caFile := filepath.Join(dir, "trust.pem")
	s := serveProcess(t, []string{"TELEPORT_FIND_SELF_SIGNED=true", "TELEPORT_FIND_LISTEN=0.0.0.0:0", "TELEPORT_FIND_HOSTNAME=localhost,find.example"},
		"--releases", dir, "--ca-out", caFile)
	s.caFile = caFile
	if !strings.HasPrefix(s.url, "https://localhost:") {
		t.Fatalf("listening on %s", s.url)
	}
	if got, want := s.ask(""), (find.Answer{Version: "15.1.1", Edition: releases.Enterprise, AutoUpdate: true}); got != want {
		t.Errorf("the newest release: %+v; want %+v", got, want)
	}
	if status, body := s.get("/releases/" + tarball); status != 200 || body != "tarball" {
		t.Errorf("the tarball: %d %q", status, body)
	}
	if status, body := s.get("/releases/" + tarball + ".sha256"); status != 200 || !strings.HasSuffix(body, "  "+tarball+"\n") {
		t.Errorf("its checksum: %d %q", status, body)
	}
	if status, _ := s.get("/releases/trust.pem"); status != 404 {
		t.Errorf("another file in the folder: %d", status)
	}
	proxy := strings.TrimPrefix(s.url, "https://")
	want := "enable a host with:\n  teleport-update enable --proxy " + proxy + " --ca-file '" + caFile + "' --template '" + s.url +
		"/releases/teleport{{if .Enterprise}}-ent{{end}}-v{{.Version}}-{{.OS}}-{{.Arch}}{{if .FIPS}}-fips{{end}}-bin.tar.gz'\n"
	if code := s.stop(syscall.SIGINT); code != 0 {
		t.Errorf("SIGINT: exit code %d", code)
	}
	if !strings.Contains(s.out.String(), want) {
		t.Errorf("printed\n%s\nwant\n%s", s.out.String(), want)
	}
}

func TestServeWithoutAnythingTellsHostsToDoNothing(t *testing.T) {
	s := serveProcess(t, nil, "--listen", "127.0.0.1:0")
	status, body := s.get("/v1/webapi/find")
	if status != 200 || !strings.Contains(body, `"agent_version":"","agent_autoupdate":false`) {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := s.get("/healthz"); status != 200 {
		t.Errorf("healthz: %d", status)
	}
}

func TestServeKeepsItsCA(t *testing.T) {
	state, trusted := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "trusted.pem")
	for start := range 2 {
		s := serveProcess(t, nil, "--listen", "127.0.0.1:0", "--self-signed", "--state", state)
		if start == 0 {
			data, err := os.ReadFile(filepath.Join(state, "ca.pem"))
			if err != nil {
				t.Fatal(err)
			}
			write(t, trusted, string(data))
		}
		s.caFile = trusted
		if status, _ := s.get("/healthz"); status != 200 {
			t.Errorf("start %d: healthz: %d", start, status)
		}
		s.stop(syscall.SIGTERM)
	}
}

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "bad.yaml"), "g: {agent_version: latest}")
	for _, name := range []string{"teleport-v15.1.1-linux-amd64-bin.tar.gz", "teleport-ent-v15.1.1-linux-amd64-bin.tar.gz"} {
		write(t, filepath.Join(dir, name), "")
		write(t, filepath.Join(dir, name+".sha256"), "")
	}
	for _, tc := range []struct {
		args string
		env  string
		code int
		want string
	}{
		{"version", "", 0, "teleport-find 1.2.3-test go1."},
		{"version -o json", "", 0, `"version":"1.2.3-test"}`},
		{"version now", "", 2, "version takes no arguments"},
		{"--version", "", 0, "teleport-find 1.2.3-test go1."},
		{"--help", "", 0, "USAGE"},
		{"serve --help", "", 0, "TELEPORT_FIND_STORE"},
		{"", "", 2, "which command?"},
		{"bogus", "", 2, `no command "bogus"`},
		{"--bogus", "", 2, "-bogus"},
		{"version x", "", 2, "no arguments"},
		{"serve x", "", 2, "no arguments"},
		{"serve --bogus", "", 2, "-bogus"},
		{"serve --self-signed=maybe", "", 2, "maybe"},
		{"serve", "TELEPORT_FIND_SELF_SIGNED=maybe", 2, "maybe"},
		{"serve --agent-version latest", "", 2, "--agent-version: version"},
		{"serve --edition gold", "", 2, "--edition: edition"},
		{"serve --jitter -1s", "", 2, "--jitter: jitter"},
		{"--log-format xml serve", "", 2, "--log-format"},
		{"serve --listen :3080", "", 2, "plain http is served on loopback addresses only"},
		{"serve --listen 3080", "", 2, "3080"},
		{"serve --public-url find.example.com", "", 2, "has no scheme"},
		{"serve --public-url http://find.example.com", "", 2, "plain http is for loopback addresses only"},
		{"serve --public-url https://find.example.com/find", "", 2, "it must not contain a path"},
		{"serve --public-url https://find.example.com:0", "", 2, "not a number from 1"},
		{"serve --public-url https://a_b", "", 2, "--public-url: address"},
		{"serve --cert x.pem", "", 2, "go together"},
		{"serve --cert x.pem --key x.pem --self-signed", "", 2, "not both"},
		{"serve --state x", "", 2, "for --self-signed"},
		{"serve --hostname find.example", "", 2, "loopback"},
		{"serve --release-template file:///srv/{{.Version}}", "", 2, "--release-template: URL template"},
		{"serve", "TELEPORT_FIND_RELEASE_TEMPLATE=https://ann:marked@find.example/{{.Version}}", 2, "it must have no user info"},
		{"serve --release-template https://find.example/{{.Version}}" + strings.Repeat("x", find.MaxReleaseTemplate), "", 2, "longer than 1024 bytes"},
		{"serve --self-signed --hostname https://find.example", "", 2, "--hostname"},
		{"serve --self-signed --hostname find.example:443", "", 2, "--hostname"},
		{"serve --listen 127.0.0.1:0 --releases DIR/none", "", 1, "no such file"},
		{"serve --listen 127.0.0.1:0 --packages DIR/none", "", 1, "open the packages folder"},
		{"serve --listen 127.0.0.1:0 --store DIR/store.db", "", 1, "others can enter the folder"},
		{"set-version --help", "", 0, "TELEPORT_FIND_ADMIN_SOCKET"},
		{"set-version", "", 2, "one version, got []"},
		{"set-version 15.1.1 15.1.2", "", 2, "one version, got"},
		{"set-version latest", "", 2, "semantic version"},
		{"set-version 15.1.1 --start", "", 2, "--start needs a value"},
		{"set-version 15.1.1 --start latest", "", 2, "--start: version"},
		{"set-version 15.1.1 --schedule urgent", "", 2, "--schedule:"},
		{"set-version 15.1.1 --bogus", "", 2, "set-version has no flag --bogus"},
		{"set-version 15.1.1 --admin-socket DIR/none.sock", "", 1, "no find server listens on"},
		{"set-version 15.1.1 --admin-socket DIR/bad.yaml", "", 1, "no find server listens on"},
		{"mode enabled now", "", 2, "enabled takes no arguments"},
		{"mode enabled --dry-run=maybe", "", 2, "maybe"},
		{"get a b", "", 2, "get takes one of autoupdate_config, autoupdate_version"},
		{"get autoupdate_versioning", "", 2, "get takes one of"},
		{"get autoupdate_agent_rollout/a", "", 2, "get takes one of"},
		{"get agent_rollout_plan", "", 2, "get takes one of"},
		{"get autoupdate_version -o xml", "", 2, "is none of table, json, yaml"},
		{"set-version --newest 15.1.1", "", 2, "a version, or --newest alone"},
		{"set-version --newest --schedule regular", "", 2, "a version, or --newest alone"},
		{"status -o xml", "", 2, "is none of table, json, yaml"},
		{"status a b", "", 2, "status takes one group"},
		{"status --watch --every 0s", "", 2, "--every 0s is not a duration above 0"},
		{"status --admin-socket DIR/none.sock", "", 1, "no find server listens on"},
		{"rollout start", "", 2, "rollout start: which groups?"},
		{"rollout start ,", "", 2, "rollout start: which groups?"},
		{"rollout done --reason x", "", 2, "rollout done: which groups?"},
		{"rollout retry dev --force", "", 2, "retry has no flag --force"},
		{"rollout reset dev", "", 2, "rollout reset takes no arguments"},
		{"rollout back --admin-socket DIR/none.sock", "", 1, "no find server listens on"},
		{"plan -f DIR/none.yaml", "", 1, "no such file"},
		{"hosts --limit 0", "", 2, "--limit 0 is not a number above 0"},
		{"hosts a b", "", 2, "an order to a host is update, hold or release"},
		{"mode", "", 2, "mode needs a word: teleport-find mode enabled|suspended|disabled"},
		{"rollout begin", "", 2, "there is no command \"rollout begin\": teleport-find rollout start|done|back|retry|reset"},
		{"stauts", "", 2, "there is no command \"stauts\"; did you mean \"status\"?"},
		{"status --wtach", "", 2, "status has no flag --wtach; did you mean \"--watch\"?"},
		{"channels --dry-run", "", 2, "--dry-run is for --export"},
		{"history --limit 0", "", 2, "--limit 0 is not a number above 0"},
		{"token web", "", 2, "token takes add, revoke or revoke-host"},
		{"token add", "", 2, "add takes the name of the new token"},
		{"token add a b", "", 2, "add takes the name of the new token"},
		{"token add web -o xml", "", 2, "is none of table, json, yaml"},
		{"token revoke", "", 2, "revoke takes the name of a token"},
		{"token add web --group dev --admin-socket DIR/none.sock", "", 1, "no find server listens on"},
		{"token revoke-host", "", 2, "revoke-host takes the UUID of a host"},
		{"apply", "", 2, "apply which file?"},
		{"apply -f DIR/none.yaml", "", 1, "no such file"},
		{"apply -f DIR/bad.yaml", "", 1, "bad.yaml: line 1: kind: it is missing; nothing was written"},
		{"apply DIR/bad.yaml", "", 2, "apply takes one file, by -f; got"},
		{"apply -f DIR/bad.yaml x", "", 2, `by -f; got "x"`},
		{"mirror --help", "", 0, "TELEPORT_FIND_MIRROR_TO"},
		{"mirror 15.1.1", "", 2, "--to says"},
		{"mirror --to DIR/m", "", 2, "which versions?"},
		{"mirror --to DIR/m latest", "", 2, "semantic version"},
		{"mirror --to DIR/m --edition gold 15.1.1", "", 2, "--edition: edition"},
		{"mirror --to DIR/m --arch AMD64 15.1.1", "", 2, "--arch"},
		{"mirror --to DIR/m --template http://cdn.example/a 15.1.1", "", 2, "--template: URL template"},
		{"mirror --to DIR/m --ca-file DIR/none 15.1.1", "", 1, "none"},
		{"serve --listen 127.0.0.1:0 --releases DIR", "", 1, "say which edition"},
		{"serve --listen 127.0.0.1:0 --cert DIR/x.pem --key DIR/x.pem", "", 1, "x.pem"},
	} {
		t.Run(tc.args+tc.env, func(t *testing.T) {
			program := binary(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, strings.Fields(strings.ReplaceAll(tc.args, "DIR", dir))...)
			if tc.env != "" {
				cmd.Env = append(os.Environ(), tc.env)
			}
			out, err := cmd.CombinedOutput()
			code := cmd.ProcessState.ExitCode()
			if code != tc.code || !strings.Contains(string(out), tc.want) {
				t.Errorf("exit code %d (%v):\n%s\nwant %d and %q", code, err, out, tc.code, tc.want)
			}
			if code != 0 && strings.Count(string(out), "\n") != 1 {
				t.Errorf("want one line:\n%s", out)
			}
		})
	}
}
