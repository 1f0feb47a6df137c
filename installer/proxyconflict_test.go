package installer

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"teleport-update/installer/decision"
)

// Somebody moves the agent to another cluster by its configuration, and the updater follows the cluster of before.
func TestAnAgentThatWasMovedToAnotherClusterIsAFault(t *testing.T) {
	for text, tc := range map[string]struct {
		breaks func(h *wellHost)
		fault  bool
	}{
		"proxy_server: other.example.com:443":                   {fault: true},
		"auth_server: other.example.com:443":                    {fault: true},
		"auth_servers: [a.example.com:443, other.example.com]":  {fault: true},
		"auth_servers: [a.example.com:443, \"127.0.0.1:3080\"]": {},
		"proxy_server: 127.0.0.1:443":                           {},
		"auth_server: other.example.com:3025":                   {},
		"nodename: here":                                        {},
		"proxy_server: allowed.example.com":                     {breaks: func(h *wellHost) { h.config.Spec.AllowProxyConflict = true }},
		"proxy_server: other.example.com":                       {breaks: func(h *wellHost) { h.config.Spec.Enabled = false }},
		"proxy_server: others.example.com": {breaks: func(h *wellHost) {
			must(t, h.heartbeats().reporter("").Enroll("teleport-find-abcdefghijklmnop", h.config.Spec.Proxy))
		}},
	} {
		h := newWellHost(t)
		config := h.Machine.Host.Paths.AgentConfig
		h.unit.Command = []string{"teleport", "start", "--config=" + config}
		writeFile(t, config, "teleport:\n  "+text+"\n")
		if tc.breaks != nil {
			tc.breaks(h)
		}
		h.state(t)
		r, said := statusSays(t, h.Installer, decision.ProxyConflict)
		if (said != "") != tc.fault {
			t.Errorf("%s: status says %q; want a fault: %v", text, said, tc.fault)
		}
		if tc.fault && (r.State != decision.NeedsAttention || !strings.Contains(said, config) || !strings.Contains(said, "`teleport-update enable --proxy ")) {
			t.Errorf("%s: the host is %s: %q", text, r.State, said)
		}
	}
}

// Enable writes down that a person allowed another proxy than the agent's, and forgets that once both are one host.
func TestEnableWritesDownThatAConflictIsAllowed(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"server_edition":"enterprise","agent_version":"1.2.0","agent_autoupdate":false}`)
	}))
	defer srv.Close()
	const other, same = "proxy_server: other.example.com", "proxy_server: 127.0.0.1:3080"
	for name, tc := range map[string]struct {
		agent            string
		given, kept, now bool
	}{
		"given and needed":        {agent: other, given: true, now: true},
		"given, and not needed":   {agent: same, given: true},
		"the command is repeated": {agent: other, kept: true, now: true},
		"there is none any more":  {agent: same, kept: true},
		"nobody allowed it":       {agent: other},
		"a file that is no YAML":  {agent: "[", kept: true, now: true},
	} {
		h := newWellHost(t)
		writeFile(t, h.Machine.Host.Paths.AgentConfig, "teleport:\n  "+tc.agent+"\n")
		h.config.Spec.Proxy, h.config.Spec.AllowProxyConflict = srv.URL, tc.kept
		h.state(t)
		in, err := h.considerEnable(t.Context(), EnableOptions{AllowProxyConflict: tc.given}, &offer{})
		if tc.agent == "[" && err != nil { // the change itself is refused
			if !allowsConflict(h.Installer, EnableOptions{}, srv.URL, h.config) {
				t.Errorf("%s: it is forgotten", name)
			}
			continue
		}
		must(t, err)
		if in == nil || in.Spec.AllowProxyConflict != tc.now {
			t.Errorf("%s: the intent is %+v; want %v", name, in, tc.now)
		}
	}
}
