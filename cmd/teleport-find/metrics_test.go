package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// metricsOf is where a server serves its metrics.
func metricsOf(t *testing.T, p *process) string {
	t.Helper()
	return "http://" + p.logged(`msg="serving metrics" address=(\S+)`)
}

func scrape(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// What is kept secret, by people and by hosts, is in no metric and in no answer of the
// listener for them.
func TestNoMetricHoldsASecret(t *testing.T) {
	const marked = "MARKED-SECRET"
	dir := t.TempDir()
	channels := filepath.Join(dir, "channels.yaml")
	write(t, channels, "stable: {forward: \"https://user:"+marked+"@127.0.0.1:1/x\"}\n")
	p := serveProcess(t, nil, "--listen", "127.0.0.1:0", "--store", filepath.Join(dir, "store", "store.db"),
		"--admin-socket", filepath.Join(dir, "admin.sock"), "--channels", channels, "--metrics-listen", "127.0.0.1:0")
	k := &kept{t: t, dir: dir, server: p}
	token := regexp.MustCompile(`\S{20,}`).FindString(k.must("token", "add", "web"))
	access := regexp.MustCompile(`\S{20,}`).FindString(k.must("token", "add", "ops", "--role", "version-admin"))
	k.must("set-version", "15.2.0", "--schedule", "immediate", "--reason", marked)
	secrets := []string{marked, token, access}
	for _, path := range []string{"/v1/agents/heartbeat", "/v1/agents/join", "/v1/stable/version", "/releases/" + marked, "/v1/webapi/find?host=" + marked} {
		req, err := http.NewRequest(http.MethodPost, p.url+path, strings.NewReader(`{"host_id":"`+marked+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := p.http().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		p.get(path)
	}
	at := metricsOf(t, p)
	for _, path := range []string{"/metrics", "/livez", "/readyz", "/"} {
		code, text := scrape(t, at+path)
		for _, secret := range secrets {
			if len(secret) < 10 || strings.Contains(text, secret) {
				t.Errorf("%s holds %q", path, secret)
			}
		}
		if want := map[bool]int{true: 404, false: 200}[path == "/"]; code != want {
			t.Errorf("%s answers %d: %s", path, code, text)
		}
	}
	if _, text := scrape(t, at+"/metrics"); !strings.Contains(text, "teleport_find_reports_total{result=\"malformed\"}") ||
		!strings.Contains(text, `teleport_find_store_operation_seconds_count{operation="commit"}`) {
		t.Errorf("metrics are\n%s", text)
	}
	// Hosts find nothing of it.
	for _, path := range []string{"/metrics", "/livez", "/readyz"} {
		if code, _ := p.get(path); code != http.StatusNotFound {
			t.Errorf("the listener for hosts answers %s with %d", path, code)
		}
	}
}

func TestWithoutBeingAskedToTheServerOpensOnePort(t *testing.T) {
	dir := t.TempDir()
	arguments := []string{"--listen", "127.0.0.1:0", "--store", filepath.Join(dir, "store", "store.db"), "--admin-socket", filepath.Join(dir, "a.sock")}
	for _, tc := range []struct {
		more []string
		want int
	}{{nil, 1}, {[]string{"--metrics-listen", "127.0.0.1:0"}, 2}, {[]string{"--metrics-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, 3}} {
		p := serveProcess(t, nil, append(slices.Clone(arguments), tc.more...)...)
		if got := listening(t, p.cmd.Process.Pid); got != tc.want {
			t.Errorf("with %q it listens on %d ports; want %d", tc.more, got, tc.want)
		}
		p.stop(os.Interrupt)
	}
	if out, code := (&kept{t: t, dir: dir}).run("serve", "--listen", "127.0.0.1:0", "--metrics-listen", "0.0.0.0:0"); code == 0 {
		t.Errorf("plain metrics for everybody: %s", out)
	}
}

// listening counts the TCP sockets on which a process listens.
func listening(t *testing.T, pid int) (n int) {
	t.Helper()
	const listens = "0A"
	sockets := map[string]bool{}
	for _, name := range []string{"tcp", "tcp6"} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == listens {
				sockets["socket:["+f[9]+"]"] = true
			}
		}
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil && sockets[to] {
			n++
		}
	}
	return n
}

// The unit's WatchdogSec hears of a server that lives.
func TestSystemdHearsThatTheServerLives(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "notify-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	serveProcess(t, []string{"NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=300000"}, "--listen", "127.0.0.1:0", "--store", filepath.Join(dir, "store", "store.db"))
	heard := map[string]int{}
	conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	for heard["WATCHDOG=1"] < 3 {
		buf := make([]byte, 1024)
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("heard was %v: %v", heard, err)
		}
		heard[string(buf[:n])]++
	}
}
