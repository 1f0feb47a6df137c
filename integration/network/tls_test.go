//go:build hosts

package network

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"teleport-update/find/server/files"
	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
)

// The find server as it is shipped, over TLS with a CA of its own.

const (
	secureAddress  = "find.example:3443"
	secureTemplate = "https://" + secureAddress + files.ReleasesPath + files.NameTemplate
	caFile         = "/etc/teleport-ca.pem"
)

// realFind serves the scene's releases as find.example and puts the CA to trust
// into the host.
type realFind struct {
	s      *scene
	socket string
	server *host.Server
}

func (s *scene) realFind(v string) *realFind {
	s.T.Helper()
	dir := s.T.TempDir()
	f := &realFind{s: s, socket: filepath.Join(dir, "find.sock")}
	var err error
	f.server, err = s.ServeFind(s.T.Context(), "127.0.0.1:3443", "serve", "--listen", "127.0.0.1:3443", "--hostname", "find.example",
		"--self-signed", "--ca-out", filepath.Join(dir, "ca.pem"), "--releases", s.Releases, "--agent-version", v, "--admin-socket", f.socket)
	if err != nil {
		s.T.Fatal(err)
	}
	if err := s.CopyIn(filepath.Join(dir, "ca.pem"), caFile, 0o644); err != nil {
		s.T.Fatal(err)
	}
	s.Write("/etc/hosts", "127.0.0.1 localhost find.example other.example\n")
	return f
}

// wants has the server want another version.
func (f *realFind) wants(v string) {
	f.s.T.Helper()
	out, err := exec.CommandContext(f.s.T.Context(), f.s.Program(host.Find()), "set-version", v, "--admin-socket", f.socket).CombinedOutput()
	if err != nil {
		f.s.T.Fatalf("set-version %s: %v\n%s%s", v, err, out, f.server.Output())
	}
}

// offers waits until find's answer to this host is that version.
func (s *scene) offers(v string) {
	s.T.Helper()
	host.Wait(s.T, patience, func() error {
		if r := s.Status(); scenes.Text(r.VersionDesired) != v || r.DesiredError != nil {
			return fmt.Errorf("the cluster wants %s (%s)", scenes.Text(r.VersionDesired), scenes.Text(r.DesiredError))
		}
		return nil
	})
}

func TestAPrivateCAIsTrustedOnceItIsNamed(t *testing.T) {
	s := newScene(t)
	s.MkdirAll(store)
	s.Sound("1.0.0", "1.1.0")
	f := s.realFind("1.0.0")

	enable := func(proxy string, more ...string) []string {
		return append([]string{updater, "enable", "--proxy", proxy, "--template", secureTemplate, "--health-window", scenes.Window}, more...)
	}
	s.Refused("without the CA", []string{"certificate is not trusted", "--ca-file", "nothing was changed"}, enable(secureAddress)...)
	s.Refused("under another name", []string{"certificate is not trusted", "not other.example", "nothing was changed"},
		enable("other.example:3443", "--ca-file", caFile)...)
	r := s.Try(enable("http://find.example:3080")...)
	if r.Code != 2 || !strings.Contains(r.Stderr, "plain http is for loopback addresses only") {
		t.Errorf("plain http to a name: exit code %d:\n%s", r.Code, r.Stderr)
	}

	s.Must(enable(secureAddress, "--ca-file", caFile)...)
	s.Must("systemctl", "enable", "--now", "teleport")
	s.Serves("1.0.0")

	// The timer's runs trust it too.
	f.wants("1.1.0")
	s.offers("1.1.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick ended with %d", code)
	}
	s.Serves("1.1.0")
}

// connectProxy is an HTTP proxy in the host's network. Whatever it is asked to
// connect to is the real find server.
type connectProxy struct {
	s      *scene
	mu     sync.Mutex
	refuse string   // a status to answer everybody with
	asked  []string // what to connect to, and how one authenticated
}

func (s *scene) connectProxy(address string) *connectProxy {
	p := &connectProxy{s: s}
	srv := &http.Server{Handler: p}
	go srv.Serve(cluster.Loopback(s.T, s.Test, address))
	s.T.Cleanup(func() { srv.Close() })
	return p
}

func (p *connectProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, r.Method+" "+r.Host+" "+r.Header.Get("Proxy-Authorization"))
	refuse := p.refuse
	p.mu.Unlock()
	inside, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer inside.Close()
	if refuse != "" {
		fmt.Fprintf(inside, "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n", refuse)
		return
	}
	outside, err := p.s.Dial(r.Context(), "tcp", "127.0.0.1:3443")
	if err != nil {
		return
	}
	defer outside.Close()
	io.WriteString(inside, "HTTP/1.1 200 Connection established\r\n\r\n")
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{inside, outside}, {outside, inside}} {
		go func() { io.Copy(pair[0], pair[1]); done <- struct{}{} }()
	}
	<-done
}

// seen returns what was asked for since the last time.
func (p *connectProxy) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked = nil
	return asked
}

func (p *connectProxy) refuses(status string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = status
}

// The host resolves no name but its own: all goes through the proxy, which the
// unit's environment names as a person's shell does.
func TestTheHTTPProxyOfTheEnvironmentIsUsed(t *testing.T) {
	s := newScene(t)
	s.MkdirAll(store)
	s.Sound("1.0.0", "1.1.0")
	f := s.realFind("1.0.0")
	s.Write("/etc/hosts", "127.0.0.1 localhost\n")
	p := s.connectProxy("127.0.0.1:8080")
	const environment = "HTTPS_PROXY=http://ann:secret@127.0.0.1:8080"
	enable := []string{"env", environment, updater, "enable", "--proxy", secureAddress, "--template", secureTemplate, "--ca-file", caFile, "--health-window", scenes.Window}

	p.refuses("407 Proxy Authentication Required")
	message := s.Refused("the HTTP proxy refuses", []string{"the HTTP proxy http://127.0.0.1:8080 refused the connection to find.example:3443: 407"}, enable...)
	if strings.Contains(message, "secret") {
		t.Errorf("the password is told: %s", message)
	}
	down := append([]string{"env", strings.Replace(environment, "8080", "8081", 1)}, enable[2:]...)
	s.Refused("the HTTP proxy is down", []string{"the HTTP proxy cannot be reached: no connection to 127.0.0.1:8081: connection refused"}, down...)
	p.refuses("")
	p.seen()

	s.Must(enable...)
	asked := p.seen()
	if want := "CONNECT find.example:3443 Basic YW5uOnNlY3JldA=="; len(asked) == 0 || asked[0] != want {
		t.Errorf("the HTTP proxy was asked for %q; want %s", asked, want)
	}
	s.Must("systemctl", "enable", "--now", "teleport")
	s.Serves("1.0.0")

	s.Write("/etc/systemd/system/teleport-update.service.d/proxy.conf", "[Service]\nEnvironment="+environment+"\n")
	s.Must("systemctl", "daemon-reload")
	f.wants("1.1.0")
	host.Wait(t, patience, func() error {
		if code := s.Tick(); code != 0 {
			t.Fatalf("the tick ended with %d", code)
		}
		if got := s.Link(linkDir + "/teleport"); got != programs+"/1.1.0/bin/teleport" {
			return fmt.Errorf("linked is %s", got)
		}
		return nil
	})
	s.Serves("1.1.0")
	if len(p.seen()) == 0 {
		t.Error("the timer's run did not ask the HTTP proxy")
	}
}
