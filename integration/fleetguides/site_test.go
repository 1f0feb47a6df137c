//go:build hosts

package fleetguides

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"teleport-update/find/server/parts"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
)

// settings are those of a find server that hosts on the network reach.
const settings = `TELEPORT_FIND_LISTEN=:3443
TELEPORT_FIND_HOSTNAME=%s
TELEPORT_FIND_SELF_SIGNED=true
TELEPORT_FIND_STATE=/var/lib/teleport-find/tls
`

// server makes a host a find server in use: with an authority of its own, releases, and a version for all hosts.
func (r *reader) server(name, version string) {
	r.t.Helper()
	h := r.hosts[name]
	r.releases(h, "/var/lib/teleport-find/releases")
	h.Write("/etc/default/teleport-find", fmt.Sprintf(settings, name))
	r.sh(h, "apt-get install --yes -o Dpkg::Options::=--force-confold /root/teleport-find_1.2.3_*.deb; systemctl enable --now teleport-find")
	r.sh(h, "teleport-find set-version "+version+"; teleport-find mode enabled")
}

// agent is a host's configuration of its agent, before anything is installed.
func (r *reader) agent(name string) {
	r.t.Helper()
	h := r.hosts[name]
	h.Write("/etc/teleport.yaml", "teleport:\n  proxy_server: teleport.example.com:443\n  diag_addr: 127.0.0.1:3000\n")
	// Runs of the timer come when the page says so.
	h.Write("/etc/systemd/system/teleport-update.timer.d/50-never.conf", "[Timer]\nOnCalendar=\nOnCalendar=2099-01-01\n")
}

// sh runs what has to succeed.
func (r *reader) sh(h *host.Test, script string) string {
	r.t.Helper()
	got, err := h.RunCommand(r.t.Context(), host.Command{Args: []string{"sh", "-euc", script}, Env: []string{"DEBIAN_FRONTEND=noninteractive"}})
	check(r.t, err)
	if got.Code != 0 {
		r.t.Fatalf("exit code %d of\n%s\n%s%s", got.Code, script, got.Stdout, got.Stderr)
	}
	return got.Stdout
}

// outside is what a host finds outside: Teleport's CDN, and a chat that takes each post. It is a machine of its own that
// is never booted.
func (r *reader) outside(forHost string) {
	r.t.Helper()
	authority, err := parts.NewAuthority()
	check(r.t, err)
	config, err := authority.Config([]string{"cdn.teleport.dev", "hooks.example.com"})
	check(r.t, err)
	machine := host.MadeForTest(r.t, host.Options{Plain: true})
	check(r.t, r.network.Join(r.t.Context(), machine.Host, "192.0.2.200/24"))
	listener, err := machine.Listen("tcp", "192.0.2.200:443")
	check(r.t, err)
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServer(http.Dir(releases(r.t))))
	mux.HandleFunc("POST /services/", func(http.ResponseWriter, *http.Request) {})
	srv := &http.Server{Handler: mux}
	go srv.Serve(tls.NewListener(listener, config))
	r.t.Cleanup(func() { srv.Close() })

	h := r.hosts[forHost]
	h.Write("/etc/hosts", h.Read("/etc/hosts")+"192.0.2.200 cdn.teleport.dev hooks.example.com\n")
	h.Write("/usr/local/share/ca-certificates/cdn.crt", string(authority.PEM()))
	h.Must("update-ca-certificates")
}

// releases puts those that the pages name into a folder of a host.
func (r *reader) releases(h *host.Test, dir string) {
	r.t.Helper()
	files, err := filepath.Glob(filepath.Join(releases(r.t), "*"))
	check(r.t, err)
	for _, file := range files {
		check(r.t, h.CopyIn(file, filepath.Join(dir, filepath.Base(file)), 0o644))
	}
}

// releases returns a folder with the releases that the pages name: 15.3.0 does not run.
func releases(t *testing.T) string {
	t.Helper()
	releasesOnce.Do(func() {
		dir := filepath.Join(module, "build", "test", "fleetguides-releases")
		check(t, os.RemoveAll(dir))
		check(t, os.MkdirAll(dir, 0o755))
		agent, err := host.Build(t.Context(), host.Agent())
		check(t, err)
		for version, variant := range map[string]stamp.Variant{"15.1.1": stamp.Sound, "15.2.0": stamp.Sound, "15.3.0": stamp.ExitsAtStart} {
			spec := release.Spec{Version: version, Variant: variant, Agent: agent}
			spec.Unit.RestartDelay = 300 * time.Millisecond
			_, _, err := release.Build(dir, spec)
			check(t, err)
		}
		releasesDir = dir
	})
	if releasesDir == "" {
		t.Fatal("the releases could not be built")
	}
	return releasesDir
}

var (
	releasesOnce sync.Once
	releasesDir  string
)
