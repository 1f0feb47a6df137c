//go:build hosts

package network

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/integration/cluster"
	"teleport-update/integration/scenes"
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
	{name: "find answers garbage", fault: body("\x00\x01\xffgarbage"), says: "not the JSON of a find endpoint (invalid from byte 1 on)"},
	{name: "find answers nothing", fault: body(""), says: "it is empty"},
	{name: "find answers half an answer", fault: body(`{"server_edition":"oss","agent_ver`), says: "not the JSON of a find endpoint"},
	{name: "find is behind a captive portal", fault: body("<!DOCTYPE html><html><title>Hotel WiFi</title></html>"), says: "a web page"},
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
			s.Breaks(onFind(tc.fault))
		}
		proxy := tc.proxy
		if proxy == "" {
			proxy = cluster.ProxyAddress
		}
		s.Refused("enable: "+tc.name, []string{tc.says, "; nothing was changed: remove the cause, then run the command again"}, updater, "enable", "--proxy", proxy, "--template", cluster.TemplateURL)
		s.Breaks(nil)
	}
	s.Sound("1.0.0")
	s.RunsOn("1.0.0")
	sound := s.Read(store + "/updates.yaml")
	for _, tc := range badFind {
		if tc.fault != nil {
			s.Breaks(onFind(tc.fault))
		}
		if tc.proxy != "" {
			s.Configure(strings.Replace(sound, cluster.ProxyAddress, tc.proxy, 1))
		}
		s.Refused("update: "+tc.name, []string{tc.says, "; the agent stays on version 1.0.0: the next run tries again"}, updater, "update")
		s.Configure(sound)
		s.Breaks(nil)
	}
}

// Find that cannot be reached fails no run of the timer for an hour: the journal warns,
// and status says since when. What find wants is then the last thing it said, or unknown.
func TestATickThatFailsIsSeenAndTheNextTriesAgain(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.RunsOn("1.0.0")
	s.Breaks(onFind(status(503, "")))
	before := s.Look()
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick ended with %d; want 0", code)
	}
	s.Same("the tick", before)
	s.Must("journalctl", "--sync")
	errs := s.Must("journalctl", "-t", "teleport-update", "-p", "warning", "-o", "cat", "--no-pager")
	if strings.Count(errs, "\n") != 0 || !strings.Contains(errs, "503 Service Unavailable") || !strings.Contains(errs, "the agent stays on version 1.0.0") {
		t.Errorf("the journal says:\n%s", errs)
	}
	r := s.Status()
	if r.State != decision.Waiting || r.Conditions[0].Type != decision.FindUnreachable || r.Conditions[0].Since == nil {
		t.Errorf("status: %s, %+v", r.State, r.Conditions)
	}
	if scenes.Text(r.VersionDesired) != "1.0.0" || r.DesiredCheckedAt == nil || r.DesiredError == nil || !strings.Contains(*r.DesiredError, "503") {
		t.Errorf("status: desired %s, asked at %v, error %s", scenes.Text(r.VersionDesired), r.DesiredCheckedAt, scenes.Text(r.DesiredError))
	}
	s.Must("rm", store+"/find.json")
	r = s.Status()
	if r.VersionDesired != nil || r.EditionDesired != nil || r.UpdateTimeJitter != nil || r.State != decision.Waiting || !strings.Contains(fmt.Sprint(r.Conditions), "not known") {
		t.Errorf("status invents: desired %s, %s", scenes.Text(r.VersionDesired), r.Explanation)
	}

	// A release that cannot be fetched is tried again at the next tick.
	s.Sound("1.1.0")
	s.Wants("1.1.0")
	s.Breaks(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, ".sha256") {
			return false
		}
		http.NotFound(w, r)
		return true
	})
	if code := s.Tick(); code != 1 {
		t.Errorf("the tick ended with %d; want 1", code)
	}
	r = s.Status()
	if scenes.Text(r.LastResult) != "failed" || scenes.Text(r.LastTarget) != "1.1.0" || !strings.Contains(scenes.Text(r.LastError), "404 Not Found") || r.FailedVersion != nil ||
		r.State != decision.Failing || r.Failing == nil || r.Failing.Count != 1 {
		t.Errorf("status: last result %s, to %s, failed %s: %s", scenes.Text(r.LastResult), scenes.Text(r.LastTarget), scenes.Text(r.FailedVersion), scenes.Text(r.LastError))
	}
	s.Breaks(nil)
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick ended with %d; want 0", code)
	}
	s.Serves("1.1.0")

	// A damaged version is put right even while find is down.
	s.Breaks(onFind(status(503, "")))
	s.Must("rm", programs+"/1.1.0/bin/tsh")
	if code := s.Tick(); code != 0 || !s.Exists(programs+"/1.1.0/bin/tsh") {
		t.Errorf("the tick ended with %d; tsh is there: %v", code, s.Exists(programs+"/1.1.0/bin/tsh"))
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
