//go:build hosts

package network

import (
	"strings"
	"testing"

	"teleport-update/integration/cluster"
)

// An HTTP proxy that the shell alone knows is none for the runs of the timer: enable names the file, and
// writes it there if it is asked to, for root alone.
func TestAnHTTPProxyOfTheShellIsNamedAndKept(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Wants("1.0.0")
	const file, variable = "/etc/default/teleport-update", "HTTPS_PROXY=http://ann:secret@127.0.0.1:8080"
	enable := []string{"env", variable, updater, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--health-window", "1s"}
	r := s.Try(enable...)
	if r.Code != 0 || !strings.Contains(r.Stderr, "this shell alone knows an HTTP proxy") || !strings.Contains(r.Stderr, file) ||
		!strings.Contains(r.Stderr, "HTTPS_PROXY") || strings.Contains(r.Stderr, "secret") {
		t.Errorf("enable ends with %d and says\n%s", r.Code, r.Stderr)
	}
	if s.Exists(file) {
		t.Errorf("%s was written without being asked for:\n%s", file, s.Read(file))
	}
	s.Must(append(enable, "--keep-proxy")...)
	if got := s.Must("stat", "-c", "%a %U", file); got != "600 root" {
		t.Errorf("%s has mode and owner %s", file, got)
	}
	if !strings.Contains(s.Read(file), `HTTPS_PROXY="http://ann:secret@127.0.0.1:8080"`) {
		t.Errorf("%s holds\n%s", file, s.Read(file))
	}
	if r := s.Try(enable...); r.Code != 0 || strings.Contains(r.Stderr, "this shell alone knows") {
		t.Errorf("with the proxy in %s, enable ends with %d and says\n%s", file, r.Code, r.Stderr)
	}
}
