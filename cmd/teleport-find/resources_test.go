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
)

// The whole story of a store, with the program as it is: what is said is what
// hosts are told, at once and after every kind of end of the server.
func TestWhatIsSaidIsWhatHostsAreTold(t *testing.T) {
	dir := t.TempDir()
	releases := filepath.Join(dir, "releases")
	if err := os.Mkdir(releases, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(releases, "teleport-v15.1.0-linux-amd64-bin.tar.gz"), "")
	write(t, filepath.Join(releases, "teleport-v15.1.0-linux-amd64-bin.tar.gz.sha256"), "")
	write(t, filepath.Join(releases, "teleport-v15.9.0-linux-amd64-bin.tar.gz"), "a copy in progress")
	a := &adminRun{t: t, dir: dir}
	start := func(args ...string) *process {
		return serveProcess(t, nil, append([]string{"--listen", "127.0.0.1:0", "--store", filepath.Join(dir, "store", "store.db"), "--admin-socket", a.socket(), "--releases", releases}, args...)...)
	}
	expect := func(s *process, want string) {
		t.Helper()
		answer := s.ask("any")
		if got := answer.Version + map[bool]string{true: " now"}[answer.AutoUpdate]; got != want {
			t.Errorf("hosts are told %s; want %s", got, want)
		}
	}
	s := start()
	expect(s, "15.1.0")
	for _, step := range []struct {
		args   string
		code   int
		says   string
		expect string
	}{
		{"get autoupdate_version", 1, "there is no autoupdate_version in the store", "15.1.0"},
		{"set-version v15.1.0 --dry-run", 0, "autoupdate_version would be created (a dry run)\nhosts would be told 15.1.0 oss, and to stay as they are\n", "15.1.0"},
		{"set-version v15.1.0 --schedule=immediate", 0, "autoupdate_version created\nhosts are told 15.1.0 oss, and to stay as they are\nnote: updates are disabled", "15.1.0"},
		{"mode enabled", 0, "autoupdate_config created\nhosts are told 15.1.0 oss, and to update\n", "15.1.0 now"},
		{"set-version --start 15.1.0 15.2.0", 0, "warning: there is no tarball of this version and edition, with its .sha256, in the releases folder: 15.2.0 oss", "15.2.0 now"},
		{"get -o json autoupdate_version", 0, `"spec":{"agents":{"start_version":"15.1.0","target_version":"15.2.0","schedule":"immediate"}}}`, "15.2.0 now"},
		{"mode suspended", 0, "autoupdate_config changed", "15.2.0"},
		{"mode suspended", 0, "autoupdate_config unchanged", "15.2.0"},
		{"set-version 15.1.0", 0, "updates are suspended by autoupdate_config", "15.1.0"},
		{"mode enabled --dry-run", 0, "would be changed", "15.1.0"},
		{"set-version 15.2.0 --help", 0, "teleport-find set-version VERSION", "15.1.0"},
		{"set-version 15.2.0 -h", 0, "teleport-find set-version VERSION", "15.1.0"},
		{"mode disabled", 0, "updates are disabled by autoupdate_config", "15.1.0"},
		{"get autoupdate_config -o yaml", 0, "spec:\n  agents:\n    mode: disabled\n", "15.1.0"},
		{"get", 0, "\n---\nkind: autoupdate_version\n", "15.1.0"}, // all of them
		{"get nothing", 2, "get takes one of autoupdate_config, autoupdate_version", "15.1.0"},
	} {
		if code, out := a.run("", strings.Fields(step.args)...); code != step.code || !strings.Contains(out, step.says) {
			t.Errorf("%s: exit code %d\n%s\nwant %d and %s", step.args, code, out, step.code, step.says)
		}
		expect(s, step.expect)
	}

	// Resources in a file, as they were printed.
	_, text := a.run("", "get", "autoupdate_config")
	edited := strings.Replace(text, "disabled", "enabled", 1) + "---\nkind: autoupdate_version\nmetadata: {name: autoupdate-version}\nspec: {agents: {target_version: 15.3.0, schedule: immediate}}\n"
	if code, out := a.run(edited, "apply", "--dry-run", "-f", "-"); code != 0 ||
		out != "autoupdate_config would be changed (a dry run)\nautoupdate_version would be changed (a dry run)\nhosts would be told 15.3.0 oss, and to update\n"+
			"warning: there is no tarball of this version and edition, with its .sha256, in the releases folder: 15.3.0 oss\n" {
		t.Errorf("apply --dry-run: exit code %d\n%s", code, out)
	}
	expect(s, "15.1.0")
	file := filepath.Join(dir, "resources.yaml")
	write(t, file, edited)
	if code, out := a.run("", "apply", "-f", file); code != 0 || !strings.Contains(out, "autoupdate_config changed") || !strings.Contains(out, "autoupdate_version changed") {
		t.Errorf("apply: exit code %d\n%s", code, out)
	}
	expect(s, "15.3.0 now")
	// The second of two is wrong: the first is not written either.
	write(t, file, strings.NewReplacer("enabled", "disabled", "target_version: 15.3.0", "target_versions: 15.3.0").Replace(edited))
	if code, out := a.run("", "apply", "-f", file); code != 1 || !strings.Contains(out, file+": document 2: line 12: spec.agents.target_versions: unknown field") {
		t.Errorf("apply of a file with an error: exit code %d\n%s", code, out)
	}
	write(t, file, strings.Replace(edited, "15.3.0", "15.4.0", 1))
	if code, out := a.run("", "apply", "-f", file); code != 1 || !strings.Contains(out, "autoupdate_config has changed since revision") ||
		!strings.Contains(out, `nothing was written: change what "teleport-find get" prints now`) {
		t.Errorf("apply of what has changed since: exit code %d\n%s", code, out)
	}
	expect(s, "15.3.0 now")

	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: exit code %d\n%s", code, s.log.String())
	}
	if _, err := os.Lstat(a.socket()); err == nil {
		t.Error("the socket is left behind")
	}
	if code, out := a.run("", "mode", "enabled"); code != 1 || !strings.Contains(out, "no find server listens on "+a.socket()) {
		t.Errorf("without a server: exit code %d\n%s", code, out)
	}
	s = start()
	expect(s, "15.3.0 now")
	if code, out := a.run("", "set-version", "15.1.0"); code != 0 {
		t.Errorf("exit code %d\n%s", code, out)
	}
	s.stop(syscall.SIGKILL)
	s = start()
	expect(s, "15.1.0 now")
}

func TestTwoServersShareAStore(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and starts servers")
	}
	dir := t.TempDir()
	a := &adminRun{t: t, dir: dir}
	storeFile := filepath.Join(dir, "store", "store.db")
	first := serveProcess(t, nil, "--listen", "127.0.0.1:0", "--store", storeFile, "--admin-socket", a.socket())
	second := serveProcess(t, nil, "--listen", "127.0.0.1:0", "--store", storeFile)
	if code, out := a.run("", "set-version", "15.1.0", "--schedule", "immediate"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	if got := first.ask("").Version; got != "15.1.0" {
		t.Errorf("the one that wrote it tells %s", got)
	}
	second.until("the other server does not tell the version", func() bool {
		_, body := second.get("/v1/webapi/find")
		return strings.Contains(body, `"agent_version":"15.1.0"`)
	})
}

// adminRun runs the program as an operator does.
type adminRun struct {
	t   *testing.T
	dir string
}

func (a *adminRun) socket() string { return filepath.Join(a.dir, "admin.sock") }

func (a *adminRun) run(input string, args ...string) (int, string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(a.t), args...)
	cmd.Env = append(os.Environ(), "TELEPORT_FIND_ADMIN_SOCKET="+a.socket())
	cmd.Stdin = strings.NewReader(input)
	out, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(out)
}

// With groups, a version goes from one to the next, and the program says when.
func TestAVersionForGroups(t *testing.T) {
	dir := t.TempDir()
	a := &adminRun{t: t, dir: dir}
	s := serveProcess(t, nil, "--listen", "127.0.0.1:0", "--store", filepath.Join(dir, "store", "store.db"), "--admin-socket", a.socket())
	file := filepath.Join(dir, "groups.yaml")
	write(t, file, `kind: autoupdate_config
metadata: {name: autoupdate-config}
spec:
  agents:
    mode: enabled
    schedules:
      regular:
      - {name: dev, days: ["*"], start_hour: 4}
      - {name: "prod/eu 1", days: ["*"], start_hour: 6, timeout_seconds: 30, jitter_seconds: 10}
`)
	run := func(code int, want string, args ...string) string {
		t.Helper()
		got, out := a.run("", args...)
		if got != code || !strings.Contains(out, want) {
			t.Errorf("%q: exit code %d\n%s\nwant %d and %s", args, got, out, code, want)
		}
		return out
	}
	rolloutIs := func(want string) {
		t.Helper()
		s.until("the rollout is not "+want, func() bool {
			_, out := a.run("", "get", "autoupdate_agent_rollout")
			return strings.Contains(out, want)
		})
	}
	run(0, "warning: spec.agents.schedules.regular[1].timeout_seconds: 30 is less than", "apply", "-f", file)
	run(0, "warning: there is no start version other than 15.1.0", "set-version", "15.1.0")
	run(0, "  schedule: regular\n", "get", "autoupdate_agent_rollout")
	if got := s.ask("dev"); got.Version != "15.1.0" || got.AutoUpdate {
		t.Errorf("dev is told %+v", got)
	}

	// What came to everybody is what the next version starts from.
	run(0, "hosts are told 15.1.0 oss, and to update", "set-version", "15.1.0", "--schedule", "immediate")
	rolloutIs("schedule: immediate")
	out := run(0, "hosts of dev are told 15.1.0 oss, and to stay as they are; the group starts ", "set-version", "v15.2.0")
	if !strings.Contains(out, "hosts of prod/eu 1 are told 15.1.0") || !strings.Contains(out, " 06:00 UTC at the earliest\n") {
		t.Errorf("it says\n%s", out)
	}
	rolloutIs("target_version: 15.2.0")
	run(0, "hosts of dev would be told 15.1.0 oss", "set-version", "v15.3.0", "--dry-run")
	run(0, "start_version: 15.1.0\n    target_version: 15.2.0\n    schedule: regular\n", "get", "autoupdate_version")
	if got := s.ask("prod/eu 1"); got.Version != "15.1.0" || got.AutoUpdate || got.Jitter != 10*time.Second {
		t.Errorf("prod is told %+v", got)
	}
	// Which did not: the start stays.
	run(0, "", "set-version", "15.3.0", "--schedule", "critical")
	run(0, "start_version: 15.1.0\n    target_version: 15.3.0\n    schedule: critical\n", "get", "autoupdate_version")
	rolloutIs("any_hour: true")

	edited := strings.Replace(run(0, "", "get", "autoupdate_config"), "start_hour: 6", "start_hour: 7", 1)
	write(t, file, edited)
	run(0, "note: these wait for the next rollout, which another version or a reset begins: spec.agents.schedules.regular", "apply", "-f", file)
	run(1, "autoupdate_agent_rollout is written by the server only", "apply", "-f", saved(t, dir, run(0, "", "get", "autoupdate_agent_rollout", "-o", "json")))
	run(1, "there is no agent_rollout_plan prod/eu 1 in the store", "get", "agent_rollout_plan/prod/eu 1")
}

func saved(t *testing.T, dir, text string) string {
	t.Helper()
	path := filepath.Join(dir, "saved")
	write(t, path, text)
	return path
}
