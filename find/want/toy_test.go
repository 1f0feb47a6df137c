package want_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/want"
	"teleport-update/internal/version"
	"teleport-update/internal/webclient"
	"teleport-update/report"
)

// deployment is an agent that has no host: another program restarts it on the image that is asked for.
type deployment struct{ image version.Release }

// An updater for another platform asks find, decides and reports with these three packages.
func TestAnUpdaterOfAnotherPlatform(t *testing.T) {
	due, reported := false, find.Heartbeat{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			json.NewEncoder(w).Encode(map[string]any{"server_edition": "oss", "agent_version": "15.2.0", "agent_autoupdate": due})
			return
		}
		json.NewDecoder(r.Body).Decode(&reported)
		w.Write([]byte("{}"))
	}))
	defer server.Close()
	web, err := webclient.New(webclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	client := find.Client{HTTP: web}
	dir := t.TempDir()
	machine := filepath.Join(dir, "machine-id")
	if err := os.WriteFile(machine, []byte("0123456789abcdef0123456789abcdef\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	reporter := report.Reporter{File: filepath.Join(dir, "report.json"), MachineID: machine, Now: time.Now,
		HTTP: func() (*http.Client, error) { return web, nil }}
	if err := reporter.Enroll("teleport-find-abcdefghijklmnop", server.URL); err != nil {
		t.Fatal(err)
	}
	agent := deployment{version.Release{Version: "15.1.0", Edition: version.OSS}}
	for _, turn := range []struct {
		due  bool
		runs string
	}{{false, "15.1.0"}, {true, "15.2.0"}, {true, "15.2.0"}} {
		due = turn.due
		answer, err := client.Ask(t.Context(), find.Request{Proxy: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		wish := want.Wish{Release: version.Release{Version: answer.Version, Edition: answer.Edition}, Due: answer.AutoUpdate}
		if d := want.Decide(wish, want.Agent{Active: agent.image}, want.Turn{At: time.Now(), Scheduled: true}); d.Change() {
			agent.image = d.Release
		}
		if err := reporter.Send(t.Context(), server.URL, find.Heartbeat{HostID: "11111111-0000-4000-8000-000000000000", Version: agent.image.Version}); err != nil {
			t.Fatal(err)
		}
		if agent.image.Version != turn.runs || reported.Version != turn.runs {
			t.Errorf("due %v: runs %s and reports %s; want %s", turn.due, agent.image.Version, reported.Version, turn.runs)
		}
	}
}

func TestAnUpdaterOfAnotherPlatformImportsNothingOfAHosts(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-test", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "teleport-update/report") {
		t.Fatalf("the list of imports is not one: %s", out)
	}
	for _, room := range []string{"installer", "systemd", "backup", "health", "versions"} {
		if strings.Contains(string(out), "\nteleport-update/"+room) {
			t.Errorf("the updater imports %s", room)
		}
	}
}
