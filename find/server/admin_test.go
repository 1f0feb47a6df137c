package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/find/server/admin"
	"teleport-update/find/server/adminapi"
)

func TestTheAdminAPI(t *testing.T) {
	w := newStoreWorld(t)
	stored := w.open()
	a := newAdminSocket(t, admin.Options{Stored: stored, Store: w.store, Log: w.options.Log})
	const all, version, config = "/v1/resources", "/v1/resources/autoupdate_version", "/v1/resources/autoupdate_config"
	for _, step := range []struct {
		name, method, path, body string
		status                   int
		want                     string // in the body
	}{
		{"nothing is there", "GET", version, "", 404, `{"error":"there is no autoupdate_version in the store"}`},
		{"another kind", "GET", "/v1/resources/cluster_maintenance_config", "", 404, `no resources of the kind`},
		{"no rollout yet", "GET", "/v1/resources/autoupdate_agent_rollout", "", 404, `there is no autoupdate_agent_rollout in the store`},
		{"no plan yet", "GET", "/v1/resources/agent_rollout_plan/a/b", "", 404, `there is no agent_rollout_plan a/b in the store`},
		{"no report yet", "GET", "/v1/resources/autoupdate_agent_report/find-1", "", 404, `there is no autoupdate_agent_report find-1 in the store`},
		{"a dry run", "PUT", all + "?dry_run=true", immediate, 200, `{"resources":[{"kind":"autoupdate_version","change":"created","resource":{"kind":"autoupdate_version",`},
		{"still nothing is there", "GET", version, "", 404, ""},
		{"a version", "PUT", all, immediate, 200, `"answer":{"agent_version":"17.2.1","edition":"oss","agent_autoupdate":false},"notes":["updates are disabled`},
		{"in JSON", "GET", version, "", 200, `{"kind":"autoupdate_version","metadata":{"name":"autoupdate-version","revision":1},"spec":{"agents":{"target_version":"17.2.1","schedule":"immediate"}}}`},
		{"a new one where there is one", "PUT", all + "?new=true", immediate, 412, "is there already"},
		{"an old revision", "PUT", all, strings.Replace(immediate, "name: autoupdate-version", "name: autoupdate-version, revision: 7", 1), 412, "it has revision 1 now"},
		{"a misspelt field", "PUT", all, strings.Replace(enabled, "mode", "modes", 1), 400, "spec.agents.modes: unknown field"},
		{"to a kind", "PUT", config, enabled, 405, ""},
		{"one kind twice", "PUT", all, enabled + "\n---\n" + enabled, 422, "two resources autoupdate_config"},
		{"what the server writes", "PUT", all, `{"kind":"autoupdate_agent_rollout","metadata":{"name":"autoupdate-agent-rollout"},"spec":{"start_version":"1.0.0","target_version":"1.0.0","schedule":"regular","autoupdate_mode":"enabled","strategy":"halt-on-error"},"status":{"state":"done","start_time":"2025-01-01T00:00:00Z"}}`, 400, "autoupdate_agent_rollout is written by the server only; people write autoupdate_config, autoupdate_version, autoupdate_notify"},
		{"what the server writes, with other fields", "PUT", all, `{"kind":"autoupdate_agent_rollout","metadata":{"name":"x"},"spec":{}}`, 400, "autoupdate_agent_rollout is written by the server only"},
		{"a report", "PUT", all, enabled + "\n---\nkind: autoupdate_agent_report\nspec: {a: 1}\n", 400, "autoupdate_agent_report is written by the server only"},
		{"a schedule without groups", "PUT", all + "?dry_run=true", scheduled, 200, "the schedule regular has no groups, and no host is told to update"},
		{"groups", "PUT", all + "?dry_run=true", scheduled + "\n---\n" + strings.Replace(enabled, "mode: enabled", "mode: enabled, schedules: {regular: [{name: a, days: ['*'], start_hour: 4}, {name: b, days: ['*'], start_hour: 4, requires: [a]}]}", 1), 200, `"groups":[{"group":"a","state":"unstarted","agent_version":"17.2.0","edition":"oss","agent_autoupdate":false,"starts":"`},
		{"too much", "PUT", all, strings.Repeat("#", 1<<20+1), 400, "larger than"},
		{"a mode", "PUT", all + "?reason=go", enabled, 200, `"agent_autoupdate":true`},
		{"how it is", "GET", "/v1/status", "", 200, `"waiting_for_reports":false`},
		{"a deletion", "DELETE", config, "", 405, ""},
	} {
		if status, body := a.do(step.method, step.path, step.body); status != step.status || !strings.Contains(body, step.want) {
			t.Errorf("%s: %d %s; want %d and %s", step.name, status, body, step.status, step.want)
		}
	}
	if log := w.log.String(); strings.Count(log, "a resource was written") != 2 || !strings.Contains(log, `kind=autoupdate_config change=created revision=2 by="uid `) {
		t.Errorf("the log:\n%s", log)
	}
	if records, err := w.other.History(t.Context(), 10); err != nil || len(records) != 2 || records[0].Who != fmt.Sprintf("uid %d", os.Getuid()) || records[0].Why != "go" || records[0].Key != "autoupdate_config" {
		t.Errorf("the history: %+v, %v", records, err)
	}
	move(t, filepath.Dir(w.path), filepath.Dir(w.path)+".away")
	refused := func(method, path string, resting bool) {
		t.Helper()
		status, body := a.do(method, path, suspended)
		var said adminapi.Error
		if err := json.Unmarshal([]byte(body), &said); err != nil || status != 503 || !strings.Contains(said.Error, "the file is gone: stop the server, remove the -wal and -shm") ||
			resting != strings.HasSuffix(said.Error, "; no host is told to update until the store can be read and written") {
			t.Errorf("%s without the store: %d %s", method, status, body)
		}
	}
	refused("GET", config, false)
	stored.Refresh(t.Context())
	refused("GET", config, true)
	refused("PUT", all, true)
}

func TestTheAdminSocketIsForItsOwnerAlone(t *testing.T) {
	if l, err := admin.Listen(t.Context(), "@find"); err == nil || !strings.Contains(err.Error(), "everybody could open it") {
		t.Errorf("a socket that has no mode: %v, %v", l, err)
	}
	w := newStoreWorld(t)
	a := newAdminSocket(t, admin.Options{Stored: w.open(), Store: w.store, Log: slog.New(slog.DiscardHandler)})
	info, err := os.Lstat(a.path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if _, err := admin.Listen(t.Context(), a.path); err == nil || !strings.Contains(err.Error(), "another server listens") {
		t.Errorf("a second server: %v", err)
	}
	if status, _ := a.do("GET", "/v1/resources/autoupdate_config", ""); status != 404 {
		t.Errorf("after the second server: %d", status)
	}
	a.stop()
	if _, err := os.Lstat(a.path); err == nil {
		t.Error("the socket is left behind")
	}

	// A server that was killed.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: a.path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	again, err := admin.Listen(t.Context(), a.path)
	if err != nil {
		t.Fatalf("the socket of a server that was killed: %v", err)
	}
	again.Close()
	if err := os.WriteFile(a.path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Listen(t.Context(), a.path); err == nil || !strings.Contains(err.Error(), "something else") {
		t.Errorf("a file of that name: %v", err)
	}
	if _, err := os.Lstat(a.path); err != nil {
		t.Error("a file of that name was removed")
	}
}

type adminTest struct {
	t      *testing.T
	path   string
	client *http.Client
	stop   func()
}

func newAdminSocket(t *testing.T, opts admin.Options) *adminTest {
	t.Helper()
	a := &adminTest{t: t, path: filepath.Join(t.TempDir(), "admin.sock")}
	listener, err := admin.Listen(t.Context(), a.path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- admin.Serve(ctx, listener, admin.New(opts), opts.Log) }()
	a.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", a.path)
	}}}
	stopped := false
	a.stop = func() {
		if stopped {
			return
		}
		stopped = true
		a.client.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(a.stop)
	return a
}

func (a *adminTest) do(method, path, body string) (int, string) {
	a.t.Helper()
	return request(a.t, a.client, "", method, "http://admin"+path, body)
}

// request asks over HTTP, and returns the status and what comes with it.
func request(t *testing.T, client *http.Client, authorization, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
