//go:build hosts

package integration

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"teleport-update/integration/host"
)

// Whatever comes from outside and cannot be used ends in one clear error, and
// the host is as it was.

// badFind are answers of find.
var badFind = []struct {
	name  string
	proxy string // empty: the cluster's, which answers with fault
	fault func(w http.ResponseWriter, r *http.Request)
	says  string
}{
	{name: "find refuses connections", proxy: "http://127.0.0.1:3999", says: "connection refused"},
	{name: "find has no such name", proxy: "no-such-proxy.example", says: "no-such-proxy.example"},
	{name: "find hangs up", fault: hangUp, says: "closed the connection"},
	{name: "find answers 500", fault: status(500, "backend is down\n"), says: "500 Internal Server Error"},
	{name: "find answers 404 on both paths", fault: status(404, "404 page not found\n"), says: "404"},
	{name: "find answers garbage", fault: body("\x00\x01\xffgarbage"), says: "not the JSON of a find endpoint (wrong from byte 1 on)"},
	{name: "find answers nothing", fault: body(""), says: "it is empty"},
	{name: "find answers half an answer", fault: body(`{"server_edition":"oss","agent_ver`), says: "not the JSON of a find endpoint"},
	{name: "find is behind a captive portal", fault: body("<!DOCTYPE html><html><title>Hotel WiFi</title></html>"), says: "a web page"},
	{name: "find names no version", fault: body(`{"server_edition":"oss","agent_version":"","agent_autoupdate":true}`), says: "the version is empty"},
	{name: "find names latest", fault: body(`{"server_edition":"oss","agent_version":"latest","agent_autoupdate":true}`), says: `"latest" is not a semantic version`},
	{name: "find names a path", fault: body(`{"server_edition":"oss","agent_version":"../../../etc","agent_autoupdate":true}`), says: "is not a semantic version"},
	{name: "find names a version with a path in it", fault: body(`{"server_edition":"oss","agent_version":"1.1.0/../x","agent_autoupdate":true}`), says: "is not a semantic version"},
	{name: "find names an unknown edition", fault: body(`{"server_edition":"gold","agent_version":"1.1.0","agent_autoupdate":true}`), says: `edition "gold"`},
	{name: "find names no edition", fault: body(`{"agent_version":"1.1.0","agent_autoupdate":true}`), says: "server_edition"},
}

func TestABadAnswerOfFindChangesNothing(t *testing.T) {
	s := newScene(t)
	s.MkdirAll(store)
	for _, tc := range badFind {
		if tc.fault != nil {
			s.breaks(onFind(tc.fault))
		}
		proxy := tc.proxy
		if proxy == "" {
			proxy = proxyAddress
		}
		s.refused("enable: "+tc.name, []string{tc.says, "; nothing was changed: run the command again"}, updater, "enable", "--proxy", proxy, "--template", templateURL)
		s.breaks(nil)
	}
	s.sound("1.0.0")
	s.running("1.0.0")
	sound := s.Read(store + "/updates.yaml")
	for _, tc := range badFind {
		if tc.fault != nil {
			s.breaks(onFind(tc.fault))
		}
		if tc.proxy != "" {
			s.configure(strings.Replace(sound, proxyAddress, tc.proxy, 1))
		}
		s.refused("update: "+tc.name, []string{tc.says, "; the agent stays on version 1.0.0: the next run tries again"}, updater, "update")
		s.configure(sound)
		s.breaks(nil)
	}
}

// The timer's run fails as a person's does: one line of priority error in the
// journal, and the unit failed for whoever watches units. What find wants is
// then the last thing it said, or unknown.
func TestATickThatFailsIsSeenAndTheNextTriesAgain(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0")
	s.running("1.0.0")
	s.breaks(onFind(status(503, "")))
	before := s.look()
	if code := s.tick(); code != 1 {
		t.Errorf("the tick ended with %d; want 1", code)
	}
	s.same("the tick", before)
	s.Must("journalctl", "--sync")
	errs := s.Must("journalctl", "-t", "teleport-update", "-p", "err", "-o", "cat", "--no-pager")
	if strings.Count(errs, "\n") != 0 || !strings.Contains(errs, "503 Service Unavailable") || !strings.Contains(errs, "the agent stays on version 1.0.0") {
		t.Errorf("the journal says:\n%s", errs)
	}
	r := s.status()
	if text(r.VersionDesired) != "1.0.0" || r.DesiredCheckedAt == nil || r.DesiredError == nil || !strings.Contains(*r.DesiredError, "503") {
		t.Errorf("status: desired %s, asked at %v, error %s", text(r.VersionDesired), r.DesiredCheckedAt, text(r.DesiredError))
	}
	s.Must("rm", store+"/find.json")
	r = s.status()
	if r.VersionDesired != nil || r.EditionDesired != nil || r.UpdateTimeJitter != nil || !strings.Contains(r.Explanation, "not known") {
		t.Errorf("status invents: desired %s, %s", text(r.VersionDesired), r.Explanation)
	}

	// A release that cannot be fetched is tried again at the next tick.
	s.sound("1.1.0")
	s.wants("1.1.0")
	s.breaks(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, ".sha256") {
			return false
		}
		http.NotFound(w, r)
		return true
	})
	if code := s.tick(); code != 1 {
		t.Errorf("the tick ended with %d; want 1", code)
	}
	r = s.status()
	if text(r.LastResult) != "failed" || text(r.LastTarget) != "1.1.0" || !strings.Contains(text(r.LastError), "404 Not Found") || r.FailedVersion != nil {
		t.Errorf("status: last result %s, to %s, failed %s: %s", text(r.LastResult), text(r.LastTarget), text(r.FailedVersion), text(r.LastError))
	}
	s.breaks(nil)
	if code := s.tick(); code != 0 {
		t.Errorf("the tick ended with %d; want 0", code)
	}
	s.serves("1.1.0")

	// A damaged version is put right even while find is down.
	s.breaks(onFind(status(503, "")))
	s.Must("rm", store+"/1.1.0/bin/tsh")
	if code := s.tick(); code != 0 || !s.Exists(store+"/1.1.0/bin/tsh") {
		t.Errorf("the tick ended with %d; tsh is there: %v", code, s.Exists(store+"/1.1.0/bin/tsh"))
	}
}

// refused runs a command that must fail with 1, say one thing, and leave the
// host as it was.
func (s *scene) refused(name string, says []string, args ...string) (text string) {
	s.t.Helper()
	before := s.look()
	r := s.Try(args...)
	s.same(name, before)
	if r.Code != 1 {
		s.t.Errorf("%s: exit code %d; want 1", name, r.Code)
	}
	var errs []string
	for line := range strings.Lines(r.Stderr) {
		if text, ok := strings.CutPrefix(line, "error: "); ok {
			errs = append(errs, strings.TrimSpace(text))
		}
	}
	if len(errs) != 1 {
		s.t.Errorf("%s: want one error, found %d:\n%s%s", name, len(errs), r.Stdout, r.Stderr)
		return ""
	}
	s.t.Logf("%s (%v):\n\t%s", name, r.Took, errs[0])
	for _, want := range says {
		if !strings.Contains(errs[0], want) {
			s.t.Errorf("%s: the error does not say %q:\n%s", name, want, errs[0])
		}
	}
	if !strings.Contains(errs[0], "nothing was changed") && !strings.Contains(errs[0], "the agent stays on version ") &&
		!strings.Contains(errs[0], "the agent is on version ") {
		s.t.Errorf("%s: the error does not say what the host is on:\n%s", name, errs[0])
	}
	for _, p := range unclear(errs[0]) {
		s.t.Errorf("%s: %s:\n%s", name, p, errs[0])
	}
	return errs[0]
}

// same asserts that the host is as it was.
func (s *scene) same(name string, before host.Snapshot) {
	s.t.Helper()
	if diff := before.Diff(s.look()); len(diff) > 0 {
		s.t.Errorf("%s: the host changed:\n%s", name, strings.Join(diff, "\n"))
	}
}

// jargon are words that say nothing to an operator.
var jargon = []string{"%!", "<nil>", "goroutine", "context ", "dial tcp", "net/http", "tls:", "x509:", "json:", "unmarshal", "template: url",
	"invalid character", "EOF", "0x", "Get \"", "lookup ", "fork/exec"}

// unclear says what is wrong with the text of an error.
func unclear(text string) (problems []string) {
	for _, word := range jargon {
		if strings.Contains(text, word) {
			problems = append(problems, fmt.Sprintf("the error says %q", word))
		}
	}
	said := map[string]bool{}
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ':' || r == ';' }) {
		part = strings.TrimSpace(part)
		for before := range said {
			if len(part) > 12 && (strings.HasPrefix(part, before) || strings.HasPrefix(before, part)) {
				problems = append(problems, fmt.Sprintf("the error says %q twice", part))
			}
		}
		if len(part) > 12 {
			said[part] = true
		}
	}
	return problems
}

// look is the host as far as a command that fails must leave it alone: files,
// the agent's process, units. Left out are outcome, caches, locks, downloads to
// be continued, what the agent itself writes, and its database's last backup.
func (s *scene) look() host.Snapshot {
	s.t.Helper()
	tree := s.Tree("/etc", "/usr/local", "/opt", "/root", "/tmp", "/var/lib/teleport").Without(
		store+"/updates.yaml", store+"/find.json", store+"/update.lock", store+"/fetch.lock", store+"/partial",
		"/var/lib/teleport/proc", store+"/1.0.0/backup")
	tree["configuration"] = s.configuration()
	for _, property := range []string{"MainPID", "InvocationID", "NRestarts", "ActiveState", "UnitFileState"} {
		tree["agent "+property] = s.Show("teleport", property)
	}
	tree["units"] = s.Must("systemctl", "list-units", "--all", "--plain", "--no-legend", "teleport*")
	if names, err := s.Names(store + "/partial"); err == nil {
		for _, name := range names {
			if strings.HasPrefix(name, ".") {
				tree[store+"/partial/"+name] = "a leftover"
			}
		}
	}
	return tree
}

// configuration is updates.yaml without its status; a file that says nothing is
// none.
func (s *scene) configuration() string {
	if !s.Exists(store + "/updates.yaml") {
		return ""
	}
	text, _, _ := strings.Cut(s.Read(store+"/updates.yaml"), "status:")
	if strings.Join(strings.Fields(text), " ") == `version: v1 kind: agent_versions spec: proxy: "" enabled: false pinned: false` {
		return ""
	}
	return text
}

// configure writes updates.yaml, as a person does with an editor.
func (s *scene) configure(text string) {
	s.t.Helper()
	if err := s.WriteFile(store+"/updates.yaml", []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func onFind(fault http.HandlerFunc) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/webapi/find") {
			return false
		}
		fault(w, r)
		return true
	}
}

func status(code int, text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		io.WriteString(w, text)
	}
}

func body(text string) func(http.ResponseWriter, *http.Request) { return status(200, text) }

func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
