//go:build hosts

package network

import (
	"strings"
	"testing"

	"teleport-update/integration/cluster"
)

// If only the shell has an HTTP proxy, enable names its variables and the file of the timer's runs, and writes nothing.
func TestAnHTTPProxyOfTheShellIsNamedWithTheFileToWrite(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Wants("1.0.0")
	const file, variable = "/etc/default/teleport-update", "HTTPS_PROXY=http://ann:secret@127.0.0.1:8080"
	enable := []string{"env", variable, updater, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--health-window", "1s"}
	r := s.Try(enable...)
	if r.Code != 0 || !strings.Contains(r.Stderr, "only this shell has an HTTP proxy") || !strings.Contains(r.Stderr, file) ||
		!strings.Contains(r.Stderr, "HTTPS_PROXY") || strings.Contains(r.Stderr, "secret") {
		t.Errorf("enable ends with %d and says\n%s", r.Code, r.Stderr)
	}
	if s.Exists(file) {
		t.Errorf("%s was written:\n%s", file, s.Read(file))
	}
	s.Write(file, variable+"\n")
	if r := s.Try(enable...); r.Code != 0 || strings.Contains(r.Stderr, "only this shell has") {
		t.Errorf("with the proxy in %s, enable ends with %d and says\n%s", file, r.Code, r.Stderr)
	}
}
