//go:build hosts

package rollout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

const (
	// findAddress is the server's, and wireAddress that of the test between it and
	// the host.
	findAddress = "127.0.0.1:3091"
	wireAddress = "127.0.0.1:3090"

	joinSecret = "a-secret-of-teleports-that-find-never-sees"
)

const groups = `kind: autoupdate_config
metadata: {name: autoupdate-config}
spec:
  agents:
    mode: enabled
    strategy: halt-on-error
    schedules:
      regular:
      - {name: dev, days: ["*"], start_hour: 3, max_failed_before_halt: 0%}
      - {name: prod, days: ["*"], start_hour: 3}
`

// wire sees all that goes between the host and the find server.
type wire struct {
	mu       sync.Mutex
	requests []seen
}

type seen struct{ path, auth, all string }

func (w *wire) ServeHTTP(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.mu.Lock()
		w.requests = append(w.requests, seen{r.URL.Path, r.Header.Get("Authorization"), fmt.Sprint(r.URL, r.Header, string(body))})
		w.mu.Unlock()
		next.ServeHTTP(rw, r)
	})
}

// site is a host with a find server of its own.
type site struct {
	*scenes.Scene
	dir    string
	server *host.Server
	wire   wire
}

func newSite(t *testing.T) *site {
	s := &site{Scene: scenes.New(t), dir: t.TempDir()}
	s.serve()
	target := &url.URL{Scheme: "http", Host: findAddress}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = &http.Transport{DialContext: s.Dial, DisableKeepAlives: true}
	srv := &http.Server{Handler: s.wire.ServeHTTP(proxy)}
	go srv.Serve(cluster.Loopback(t, s.Test, wireAddress))
	t.Cleanup(func() { srv.Close() })
	return s
}

func (s *site) serve() {
	s.T.Helper()
	var err error
	s.server, err = s.ServeFind(s.T.Context(), findAddress, "serve", "--listen", findAddress, "--store", filepath.Join(s.dir, "store", "store.db"), "--admin-socket", filepath.Join(s.dir, "admin.sock"))
	s.Check(err)
}

// find runs a command of the server's.
func (s *site) find(input string, args ...string) string {
	s.T.Helper()
	cmd := exec.CommandContext(s.T.Context(), s.Program(host.Find()), args...)
	cmd.Env = append(cmd.Environ(), "TELEPORT_FIND_ADMIN_SOCKET="+filepath.Join(s.dir, "admin.sock"))
	cmd.Stdin = strings.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		s.T.Fatalf("teleport-find %s: %v\n%s%s\n%s", args, err, out, stderr.String(), s.server.Output())
	}
	return string(out)
}

func (s *site) rollout() *rollout.Rollout {
	s.T.Helper()
	list, err := rollout.Parse([]byte(s.find("", "get", rollout.KindRollout, "-o", "json")))
	s.Check(err)
	return list[0].(*rollout.Rollout)
}

func (s *site) hosts() (known adminapi.Hosts) {
	s.T.Helper()
	s.Check(json.Unmarshal([]byte(s.find("", "hosts", "-o", "json")), &known))
	return known
}

// A broken release comes to one host, which rolls it back and says so: its group is
// halted by that report, and nobody else is told to update.
func TestAReportHaltsTheGroup(t *testing.T) {
	s := newSite(t)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Variant: stamp.CrashLoops})
	s.Write("/etc/teleport.yaml", "version: v3\nteleport:\n  diag_addr: 127.0.0.1:3000\n  join_params: {method: token, token_name: /var/lib/teleport/token}\n")
	s.Write("/root/join-token", joinSecret+"\n")
	s.find(groups, "apply", "-f", "-")
	s.find("", "set-version", "1.0.0", "--schedule", "immediate")
	token := strings.TrimSpace(s.find("", "token", "add", "web", "--group", "dev", "--reason", "the first host"))
	s.Write("/root/report-token", token+"\n")

	s.Must(scenes.Updater, "enable", "--proxy", "http://"+wireAddress, "--group", "dev", "--template", cluster.TemplateURL, "--health-window", scenes.Window,
		"--token-file", "/root/join-token", "--report-token-file", "/root/report-token")
	s.Must("systemctl", "enable", "--now", "teleport")
	s.Serves("1.0.0")
	host.Wait(t, scenes.Patience, func() error {
		if !s.Exists("/var/lib/teleport/host_uuid") {
			return errors.New("the agent has not written its host_uuid")
		}
		return nil
	})
	if code := s.Tick(); code != 0 {
		t.Fatalf("a tick ends with %d", code)
	}
	known := s.hosts()
	if len(known.Hosts) != 1 || known.Hosts[0].Version != "1.0.0" || known.Hosts[0].Group != "dev" || known.Hosts[0].ID != strings.TrimSpace(s.Read("/var/lib/teleport/host_uuid")) {
		t.Fatalf("the server knows %+v\n%s", known, s.server.Output())
	}
	if known.Hosts[0].Unhealthy {
		t.Errorf("an agent that serves counts as down")
	}

	s.find("", "set-version", "1.1.0", "--start", "1.0.0", "--schedule", "regular")
	s.find("", "rollout", "start", "dev", "--force", "--reason", "a try")
	if code := s.Tick(); code != 1 {
		t.Fatalf("the tick with the broken release ends with %d\n%s", code, s.Log(""))
	}
	s.Serves("1.0.0")
	hostname := strings.TrimSpace(s.Must("hostname"))
	host.Wait(t, scenes.Patience, func() error {
		r := s.rollout()
		dev, prod := r.Status.Groups[0], r.Status.Groups[1]
		if dev.Halted == nil {
			return fmt.Errorf("dev is %+v\n%s", dev, s.server.Output())
		}
		if dev.Halted.Reason != rollout.HostsFailed || !strings.Contains(dev.Halted.Message, hostname) || !strings.Contains(dev.Halted.Message, "the agent exited with status 1") || prod.State != rollout.Unstarted {
			t.Errorf("dev is halted: %+v; prod is %s", dev.Halted, prod.State)
		}
		return nil
	})
	if status := s.find("", "status"); !strings.Contains(status, hostname) {
		t.Errorf("status does not name the host:\n%s", status)
	}
	if h := s.hosts().Hosts[0]; h.State != adminapi.HostFailed || h.Failed == nil || h.Failed.Target != "1.1.0" || h.Version != "1.0.0" {
		t.Errorf("%+v", h)
	}
	if history := s.find("", "history"); !strings.Contains(history, "a try") || !strings.Contains(history, "dev halted") || !strings.Contains(history, "the first host") {
		t.Errorf("the history is\n%s", history)
	}

	// A server that is killed knows it all again; a host whose server is gone runs on.
	s.server.Stop()
	if code := s.Tick(); code != 0 {
		t.Errorf("without the server a tick ends with %d", code)
	}
	s.Serves("1.0.0")
	s.serve()
	if code := s.Tick(); code != 0 {
		t.Errorf("the next tick ends with %d\n%s", code, s.Log(""))
	}
	if dev := s.rollout().Status.Groups[0]; dev.Halted == nil {
		t.Errorf("after a restart the group is %+v", dev)
	}
	if h := s.hosts().Hosts[0]; h.State != adminapi.HostFailed {
		t.Errorf("after a restart the host is %+v", h)
	}

	// What went over the wire, and what is told elsewhere.
	const file = scenes.Store + "/report.json"
	var credential struct{ Secret string }
	s.Check(json.Unmarshal([]byte(s.Read(file)), &credential))
	if info, err := s.Lstat(file); err != nil || info.Mode() != 0o600 || credential.Secret == "" {
		t.Errorf("%s: %v, %v", file, info, err)
	}
	if s.Read("/var/lib/teleport/token") != joinSecret+"\n" {
		t.Error("Teleport's token is not where the agent looks")
	}
	count := make(map[string]int)
	for _, r := range s.wire.requests {
		count[r.path]++
		if strings.Contains(r.all, joinSecret) {
			t.Errorf("Teleport's token goes to find: %s", r.all)
		}
		if strings.Contains(r.all, token) && (r.path != find.JoinPath || r.auth != "Bearer "+token) {
			t.Errorf("the token for reports goes elsewhere: %s", r.all)
		}
		if strings.Contains(r.all, credential.Secret) && (r.path != find.HeartbeatPath || r.auth != "Bearer "+credential.Secret) {
			t.Errorf("the secret goes elsewhere: %s", r.all)
		}
	}
	// Of three ticks with a server, and of an update its begin and its end.
	if count[find.JoinPath] != 1 || count[find.HeartbeatPath] < 5 {
		t.Errorf("the requests are %v", count)
	}
	texts := s.Log("") + s.Must(scenes.Updater, "status", "--format", "json") + s.Must(scenes.Updater, "status", "--format", "text") + s.Read(scenes.Store+"/updates.yaml") + s.server.Output()
	for name, secret := range map[string]string{"the secret": credential.Secret, "the token": token, "Teleport's token": joinSecret} {
		if strings.Contains(texts, secret) {
			t.Errorf("%s is told", name)
		}
	}

	s.Must(scenes.Updater, "uninstall")
	if s.Exists(file) {
		t.Error("the secret stays after uninstall")
	}
}
