//go:build hosts

package guides

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/integration/host"
)

// forwarder is an HTTP proxy in a host's network: the only way from there to the
// world, which does not listen there itself.
type forwarder struct {
	w     *world
	mu    sync.Mutex
	asked []string
}

func (w *world) forwarder(h *host.Test, address string) *forwarder {
	w.t.Helper()
	f := &forwarder{w: w}
	listener, err := h.Listen("tcp", address)
	check(w.t, err)
	srv := &http.Server{Handler: f}
	go srv.Serve(listener)
	w.t.Cleanup(func() { srv.Close() })
	return f
}

func (f *forwarder) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked = append(f.asked, r.Method+" "+r.Host)
	f.mu.Unlock()
	outside, err := net.Dial("tcp", f.w.outside)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadGateway)
		return
	}
	defer outside.Close()
	inside, _, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		return
	}
	defer inside.Close()
	io.WriteString(inside, "HTTP/1.1 200 Connection established\r\n\r\n")
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{inside, outside}, {outside, inside}} {
		go func() { io.Copy(pair[0], pair[1]); done <- struct{}{} }()
	}
	<-done
}

func (f *forwarder) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.asked...)
}

// From the releases' server through an HTTP proxy onto media, and from there onto
// hosts in a network without a way out: one that installs from a find server of the
// network, and one that reads the media itself.
func TestReleasesReachHostsWithoutAWayOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sound("1.0.0", "1.1.0")
	w.offersPackages()
	w.listensOutside()
	stick := t.TempDir()

	// The connected machine: it knows no names, and has only the proxy.
	connected := host.ForTest(t, host.Options{Packages: hostPackages})
	f := w.forwarder(connected, "127.0.0.1:3128")
	connected.Put(program(t, host.Find()), "/usr/bin/teleport-find")
	connected.Write("/etc/ssl/example-ca.pem", string(w.caPEM))
	mirror := []string{"env", "HTTPS_PROXY=http://127.0.0.1:3128", "teleport-find", "mirror", "--to", "/media/stick/releases", "--ca-file", "/etc/ssl/example-ca.pem",
		"--template", "https://mirror.example.com/releases/teleport-v{{.Version}}-{{.OS}}-{{.Arch}}-bin.tar.gz", "1.0.0"}
	if r := connected.Try(append([]string{"env", "-u", "HTTPS_PROXY"}, mirror[2:]...)...); r.Code != 1 {
		t.Errorf("without the proxy: exit code %d\n%s", r.Code, r.Stderr)
	}
	if r := connected.Try(append(mirror[:len(mirror):len(mirror)], "9.9.9")...); r.Code != 1 || !strings.Contains(r.Stderr, "1 of 2 tarballs are missing") {
		t.Errorf("with one version that is not there: exit code %d\n%s", r.Code, r.Stderr)
	}
	if out := connected.Must(append(mirror, "1.1.0")...); strings.Count(out, "was there") != 1 || strings.Count(out, "saved") != 1 {
		t.Errorf("the second time it says\n%s", out)
	}
	if asked := f.seen(); len(asked) == 0 || asked[0] != "CONNECT mirror.example.com:443" {
		t.Errorf("the proxy was asked for %q", asked)
	}
	copyTree(t, filepath.Join(connected.Dir, "root"), stick, "media/stick")
	check(t, os.CopyFS(filepath.Join(stick, "media/stick/packages"), os.DirFS(packages(t))))

	// The closed network: one machine, which serves, and is a host, too.
	inside := host.ForTest(t, host.Options{Packages: hostPackages})
	if routes := inside.Must("cat", "/proc/net/route"); strings.Count(routes, "\n") > 0 {
		t.Fatalf("there is a way out:\n%s", routes)
	}
	copyTree(t, stick, filepath.Join(inside.Dir, "root"), "media/stick")
	inside.Put(program(t, host.Find()), "/usr/bin/teleport-find")
	inside.Write("/etc/hosts", "127.0.0.1 localhost find.example.com\n")
	inside.Write("/etc/teleport.yaml", "teleport:\n  diag_addr: 127.0.0.1:3000\n")
	server := inside.Background(host.Command{Args: []string{"teleport-find", "serve", "--listen", ":3080", "--hostname", "find.example.com", "--self-signed",
		"--state", "/var/lib/teleport-find/tls", "--releases", "/media/stick/releases", "--packages", "/media/stick/packages", "--agent-version", "1.0.0", "--admin-socket", "/run/find.sock"}})
	host.Wait(t, 30*time.Second, func() error {
		if out, errors := server.Output(); !strings.Contains(out, "listening on https://find.example.com:3080\n") {
			return fmt.Errorf("the server says\n%s%s", out, errors)
		}
		return nil
	})
	inside.Must("cp", "/var/lib/teleport-find/tls/ca.pem", "/etc/ssl/example-ca.pem")

	inside.Must("sh", "-euc", "curl -fsS --cacert /etc/ssl/example-ca.pem https://find.example.com:3080/scripts/install.sh | sh -eu -s -- --ca-file /etc/ssl/example-ca.pem")
	inside.Must("systemctl", "enable", "--now", "teleport")
	runs(t, inside, "1.0.0")

	// From now on the releases come from the media itself.
	inside.Must("teleport-update", "enable", "--template", "file:///media/stick/releases/teleport-v{{.Version}}-{{.OS}}-{{.Arch}}-bin.tar.gz")
	inside.Must("teleport-find", "set-version", "1.1.0", "--admin-socket", "/run/find.sock")
	host.Wait(t, 30*time.Second, func() error {
		inside.Must("systemctl", "reset-failed", "teleport-update.service") // or systemd finds it started too often
		inside.Must("systemctl", "start", "teleport-update.service")
		if got := inside.Link(linkDir + "/teleport"); got != programs+"/1.1.0/bin/teleport" {
			return fmt.Errorf("teleport leads to %s", got)
		}
		return nil
	})
	runs(t, inside, "1.1.0")
	if log := inside.Log("teleport-update.service"); !strings.Contains(log, "url=file:///media/stick/releases/") {
		t.Errorf("the release did not come from the media:\n%s", log)
	}
}
