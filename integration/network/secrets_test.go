//go:build hosts

package network

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
	"teleport-update/internal/version"
)

// What a host says of itself can be handed to support as it is: no user info of
// URLs, no tokens, no passwords.

// Each secret has the word in it that is looked for.
const (
	planted        = "planted"
	secretTemplate = "http://ann:planted-user@127.0.0.1:3080/releases/teleport-v{{.Version}}-{{.OS}}-{{.Arch}}-bin.tar.gz?token=planted-token"
	secretReadyURL = "http://bob:planted-ready@127.0.0.1:3000/readyz?key=planted-key"
	secretProxy    = "http://eve:planted-proxy@127.0.0.1:8080"
)

// discreet runs commands and keeps what they say.
type discreet struct {
	*scene
	said strings.Builder
}

func (d *discreet) run(code int, args ...string) {
	d.T.Helper()
	r := d.Try(args...)
	fmt.Fprintf(&d.said, "$ %s\n%s%s", strings.Join(args, " "), r.Stdout, r.Stderr)
	if r.Code != code {
		d.T.Errorf("%s: exit code %d; want %d:\n%s%s", strings.Join(args, " "), r.Code, code, r.Stdout, r.Stderr)
	}
}

// noSecret fails the test for each line with a secret in it.
func noSecret(t *testing.T, where, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.Contains(line, planted) {
			t.Errorf("%s tells a secret: %s", where, line)
		}
	}
}

func TestNoSecretIsTold(t *testing.T) {
	s := &discreet{scene: newScene(t)}
	s.Sound("1.0.0", "1.1.0", "1.3.0")
	s.Release(release.Spec{Version: "1.2.0", Variant: stamp.NeverReady})
	s.realFind("1.0.0")
	p := s.connectProxy("127.0.0.1:8080")
	u := []string{"env", "HTTPS_PROXY=" + secretProxy, updater, "--debug"}
	command := func(args ...string) []string { return append(u[:len(u):len(u)], args...) }
	tarball := filepath.Join(s.Releases, release.Name("1.1.0", version.OSS))

	s.Wants("1.0.0")
	s.run(2, command("enable", "--proxy", "https://ann:planted-user@proxy.example")...)
	s.run(2, command("enable", "--proxy", cluster.ProxyAddress, "--template", strings.Replace(secretTemplate, ".Version", ".Release", 1))...)
	s.run(2, command("enable", "--proxy", cluster.ProxyAddress, "--template", strings.Replace(secretTemplate, "127.0.0.1", "cdn.example", 1))...)
	p.refuses("403 Forbidden")
	s.run(1, command("enable", "--proxy", secureAddress, "--ca-file", caFile)...)
	p.refuses("")
	s.run(1, command("enable", "--proxy", secureAddress, "--template", strings.Replace(secureTemplate, "https://", "https://ann:planted-user@", 1)+"?token=planted-token")...) // no CA
	s.run(0, command("enable", "--proxy", cluster.ProxyAddress, "--template", secretTemplate, "--ready-url", secretReadyURL, "--health-window", "1s")...)
	s.run(0, "systemctl", "enable", "--now", "teleport")

	s.Wants("9.9.9")
	s.run(1, command("update")...)
	s.Wants("1.1.0")
	s.run(0, command("update", "--dry-run")...)
	sound, err := os.ReadFile(tarball + ".sha256")
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(tarball+".sha256", []byte(strings.Repeat("0", 64)), 0o644)
	s.run(1, command("update")...)
	os.WriteFile(tarball+".sha256", sound, 0o644)
	s.mirror(func(w http.ResponseWriter, r *http.Request, n int64) http.ResponseWriter {
		if n == 1 {
			return &cut{ResponseWriter: w, left: 3 * mib}
		}
		return w
	})
	s.run(0, command("--log-format", "json", "update")...)
	s.Breaks(nil)
	s.Wants("1.2.0")
	s.run(1, command("update")...) // never ready
	s.Breaks(onFind(hangUp))
	s.run(1, updater, "update")
	s.run(0, updater, "status", "--format", "json")
	s.run(0, updater, "status", "--format", "text")
	s.run(0, updater, "verify")
	s.Breaks(nil)

	// While a transaction runs, in its own unit, everybody can look at it.
	s.Wants("1.3.0")
	s.Configure(strings.Replace(s.Read(store+"/updates.yaml"), "window: 1s", "window: "+scenes.Longer, 1))
	update := s.Background(host.Command{Args: command("update")})
	var unit string
	host.Wait(t, patience, func() error {
		unit = strings.Fields(s.Must("systemctl", "list-units", "--plain", "--no-legend", "teleport-update-switch-*") + " none")[0]
		if unit == "none" || s.Phase() == "" {
			return fmt.Errorf("no transaction is running")
		}
		return nil
	})
	goOn := s.Pauses()
	noSecret(t, "the unit", s.Must("systemctl", "show", "--all", unit))
	noSecret(t, "the unit's file", s.Must("systemctl", "cat", unit))
	noSecret(t, "ps", s.Must("sh", "-c", "tr '\\0' ' ' </proc/"+s.Show(unit, "MainPID")+"/cmdline"))
	noSecret(t, "ps of all", strings.ReplaceAll(s.Must("ps", "-eo", "args"), "env HTTPS_PROXY="+secretProxy, ""))
	goOn()
	if r, err := update.Wait(); err != nil || r.Code != 0 {
		t.Errorf("update: %v, exit code %d:\n%s", err, r.Code, r.Stderr)
	} else {
		s.said.WriteString(r.Stderr)
	}

	var said strings.Builder
	for line := range strings.Lines(s.said.String()) {
		if !strings.HasPrefix(line, "$ ") {
			said.WriteString(line)
		}
	}
	noSecret(t, "a command", said.String())
	if !strings.Contains(said.String(), "?token=xxxxx") {
		t.Error("no URL was told at all: the test looks in the wrong place")
	}
	s.Must("journalctl", "--sync")
	noSecret(t, "the journal", s.Must("journalctl", "--no-pager", "-o", "cat"))
	noSecret(t, "a field of the journal", s.Must("journalctl", "--no-pager", "-t", "teleport-update", "-o", "export"))
	for _, name := range []string{"updates.yaml", "find.json", "history.json", "update.lock", "fetch.lock", "update_config.yaml"} {
		path, mode := store+"/"+name, os.FileMode(0o600)
		if name == "update_config.yaml" {
			path, mode = programs+"/"+name, 0o644 // the agent's user reads it
		}
		info, err := s.Lstat(path)
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
		if name != "updates.yaml" {
			noSecret(t, name, s.Read(path))
		}
	}
}
