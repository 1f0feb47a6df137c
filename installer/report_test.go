package installer

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/installer/state"
	"teleport-update/internal/version"
)

// What a host reports follows from its files: a failure only where a version failed.
func TestWhatIsReported(t *testing.T) {
	const uuid = "11111111-0000-4000-8000-000000000000"
	last := func(r state.Result, target string) *state.LastUpdate {
		return &state.LastUpdate{Time: noon, Target: target, Result: r, Error: "it died"}
	}
	failed := &state.Failed{Version: "1.2.0", Attempts: 1, NextAttempt: noon.Add(time.Hour), Error: "it died"}
	outcome := func(state string) *find.Outcome {
		return &find.Outcome{Target: "1.2.0", State: state, Error: "it died", Time: noon}
	}
	backsOff := func(state string) *find.Outcome {
		o := outcome(state)
		o.BacksOffUntil = noon.Add(time.Hour)
		return o
	}
	for name, tc := range map[string]struct {
		spec   state.Spec
		status state.Status
		answer string
		open   bool // a transaction
		want   find.Heartbeat
	}{
		"never updated": {want: find.Heartbeat{Disabled: true}},
		"idle":          {spec: state.Spec{Enabled: true}, want: find.Heartbeat{}},
		"told to update": {
			spec: state.Spec{Enabled: true}, answer: `"version":"1.2.0","edition":"oss","auto_update":true`, want: find.Heartbeat{Told: "1.2.0"},
		},
		"not told to update": {
			spec: state.Spec{Enabled: true}, answer: `"version":"1.2.0","edition":"oss","auto_update":false`, want: find.Heartbeat{},
		},
		"pinned": {spec: state.Spec{Enabled: true, Pinned: true}, want: find.Heartbeat{Pinned: true}},
		"held back from what the cluster wants": {
			spec: state.Spec{Enabled: true}, status: state.Status{Held: &state.Held{Version: "1.2.0", Edition: version.OSS, Since: noon}},
			answer: `"version":"1.2.0","edition":"oss","auto_update":true`, want: find.Heartbeat{Told: "1.2.0", Pinned: true},
		},
		"held back from what find wanted before": {
			spec: state.Spec{Enabled: true}, status: state.Status{Held: &state.Held{Version: "1.1.0", Edition: version.OSS, Since: noon}},
			answer: `"version":"1.2.0","edition":"oss","auto_update":true`, want: find.Heartbeat{Told: "1.2.0"},
		},
		"updated":     {spec: state.Spec{Enabled: true}, status: state.Status{LastUpdate: last(state.Succeeded, "1.2.0")}, want: find.Heartbeat{Outcome: outcome("succeeded")}},
		"rolled back": {spec: state.Spec{Enabled: true}, status: state.Status{LastUpdate: last(state.RolledBack, "1.2.0"), Failed: failed}, want: find.Heartbeat{Outcome: backsOff("rolled_back")}},
		"a version that does not run here": {
			spec: state.Spec{Enabled: true}, status: state.Status{LastUpdate: last(state.FailedEarly, "1.2.0"), Failed: failed}, want: find.Heartbeat{Outcome: backsOff("failed")},
		},
		"a download that failed": {spec: state.Spec{Enabled: true}, status: state.Status{LastUpdate: last(state.FailedEarly, "1.2.0")}, want: find.Heartbeat{Outcome: outcome("interrupted")}},
		"a download that failed, after another version": {
			spec: state.Spec{Enabled: true}, status: state.Status{LastUpdate: last(state.FailedEarly, "1.2.0"), Failed: &state.Failed{Version: "1.1.0"}},
			want: find.Heartbeat{Outcome: outcome("interrupted")},
		},
		"an update is under way": {spec: state.Spec{Enabled: true}, status: state.Status{LastUpdate: last(state.RolledBack, "1.2.0")}, open: true, want: find.Heartbeat{}},
	} {
		t.Run(name, func(t *testing.T) {
			i := testInstaller(t)
			var got find.Heartbeat
			beats := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == find.HeartbeatPath {
					got, beats = find.Heartbeat{}, beats+1
					if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
						t.Error(err)
					}
				}
			}))
			defer server.Close()
			tc.spec.Proxy, tc.spec.Group = server.URL, "dev"
			if err := os.MkdirAll(i.Machine.Host.Paths.Versions(), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := (state.Config{Version: "v1", Kind: "agent_versions", Spec: tc.spec, Status: tc.status}).Save(i.Machine.Host.Paths.Config()); err != nil {
				t.Fatal(err)
			}
			if tc.answer != "" {
				writeFile(t, i.Machine.Host.Paths.LastAnswer(), `{"time":"2026-03-01T12:00:00Z","proxy":"`+server.URL+`","group":"dev",`+tc.answer+`}`)
			}
			if tc.open {
				if err := (&state.Journal{ID: "x", BootID: "boot", Started: noon}).Save(i.Machine.Host.Paths.Journal()); err != nil {
					t.Fatal(err)
				}
			}
			writeFile(t, filepath.Join(i.Machine.Host.Paths.DataDir, "host_uuid"), uuid)
			i.heartbeats().report(t.Context(), configOf(t, i), nil)
			if beats != 0 {
				t.Fatal("a host without a token reports")
			}
			if err := i.heartbeats().enroll(t.Context(), "teleport-find-abcdefghijklmnop"); err != nil {
				t.Fatal(err)
			}
			if beats != 1 || got.HostID != uuid || got.Group != "dev" || got.Sequence == 0 || got.UpdaterID == "" {
				t.Errorf("%d reports, the last %+v", beats, got)
			}
			if o, want := got.Outcome, tc.want.Outcome; (o == nil) != (want == nil) || o != nil && *o != *want {
				t.Errorf("the outcome is %+v; want %+v", o, want)
			}
			if got.Told != tc.want.Told || got.Pinned != tc.want.Pinned || got.Disabled != tc.want.Disabled {
				t.Errorf("%+v; want %+v", got, tc.want)
			}
		})
	}
}

// A handshake costs more than all the rest of a run with nothing to do: a report needs none of its own.
func TestAReportGoesOverTheConnectionOfTheQuestion(t *testing.T) {
	i := testInstaller(t)
	answer, err := find.Answer{Version: "1.0.0", Edition: version.OSS}.Body()
	must(t, err)
	var beats, connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case find.HeartbeatPath:
			beats.Add(1)
		case "/v1/webapi/find":
			w.Write(answer)
		}
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	spec := state.Spec{Proxy: server.URL, Enabled: true}
	must(t, os.MkdirAll(i.Machine.Host.Paths.Versions(), 0o755))
	must(t, (state.Config{Version: "v1", Kind: "agent_versions", Spec: spec}).Save(i.Machine.Host.Paths.Config()))
	writeFile(t, filepath.Join(i.Machine.Host.Paths.DataDir, "host_uuid"), "11111111-0000-4000-8000-000000000000")
	must(t, i.heartbeats().enroll(t.Context(), "teleport-find-abcdefghijklmnop"))
	before := connections.Load()
	for range 2 {
		if _, err := i.finder().ask(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		i.heartbeats().report(t.Context(), configOf(t, i), nil)
	}
	if n := connections.Load() - before; n != 2 || beats.Load() != 3 {
		t.Errorf("two questions with a report each took %d connections; %d reports in all", n, beats.Load())
	}
}
