package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/internal/version"
)

// place is where a test's agents live: DIR/VERSION/teleport, each a release, and
// the link DIR/teleport that they are started by.
type place struct {
	t    *testing.T
	dir  string
	logs *log
}

func newPlace(t *testing.T) *place {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), logs: newLog(t)}
	if err := os.WriteFile(p.path("config"), []byte("teleport: {diag_addr: '127.0.0.1:0'}\nstand_in: {rows_per_second: 50}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *place) path(name string) string { return filepath.Join(p.dir, name) }

// install builds a release and links it.
func (p *place) install(s stamp.Stamp) {
	p.t.Helper()
	program, err := host.Build(context.Background(), host.Agent())
	if err != nil {
		p.t.Fatal(err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		p.t.Fatal(err)
	}
	var tail strings.Builder
	if err := stamp.Append(&tail, s); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Mkdir(p.path(s.Version), 0o755); err != nil {
		p.t.Fatal(err)
	}
	// In a process of its own, lest a fork of this one keep the file open for
	// writing while another test starts it.
	cmd := exec.Command("sh", "-c", `cat >"$0" && chmod 755 "$0" && ln -sfn "$0" "$1"`, p.path(s.Version+"/teleport"), p.path("teleport"))
	cmd.Stdin = io.MultiReader(strings.NewReader(string(data)), strings.NewReader(tail.String()))
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
}

func sound(v string) stamp.Stamp {
	return stamp.Stamp{Version: v, Edition: version.OSS, Variant: stamp.Sound, Schema: 1, CrashAfter: 300 * time.Millisecond, DrainFor: time.Minute}
}

func as(v string, variant stamp.Variant, schema int) stamp.Stamp {
	s := sound(v)
	s.Variant, s.Schema = variant, schema
	return s
}

// start starts the linked agent. Whatever it becomes is killed at the end.
func (p *place) start(args ...string) *exec.Cmd {
	p.t.Helper()
	cmd := exec.Command(p.path("teleport"), append([]string{"start", "--config", p.path("config"), "--pid-file", p.path("pid"), "--data-dir", p.path("data")}, args...)...)
	cmd.Stdout, cmd.Stderr = p.logs.file, p.logs.file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		if p.t.Failed() {
			p.t.Logf("the agents' log:\n%s", p.logs)
		}
	})
	return cmd
}

// code waits for the exit code of an agent; -1 if it had to be killed.
func (p *place) code(cmd *exec.Cmd) int {
	p.t.Helper()
	defer time.AfterFunc(host.Patience, func() { cmd.Process.Kill() }).Stop()
	if err := cmd.Wait(); err != nil && cmd.ProcessState == nil {
		p.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

// who asks the agents which of them serves.
func (p *place) who() (answer struct {
	Version    string
	Pid        int
	Executable string
	Schema     int
	Handover   bool
	LastRow    int64 `json:"last_row"`
}, err error) {
	body, _, err := p.get("/version")
	if err != nil {
		return answer, err
	}
	return answer, json.Unmarshal([]byte(body), &answer)
}

func (p *place) get(path string) (body string, status int, err error) {
	address := p.logs.address()
	if address == "" {
		return "", 0, errors.New("nobody listens yet")
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: host.Patience}
	resp, err := client.Get("http://" + address + path)
	if err != nil {
		return "", 0, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return string(data), resp.StatusCode, err
}

// serves waits until the version serves and is ready, and returns its PID.
func (p *place) serves(version string) (pid int) {
	p.t.Helper()
	host.Wait(p.t, 10*time.Second, func() error {
		if _, status, err := p.get("/readyz"); err != nil || status != 200 {
			return fmt.Errorf("readyz: %d, %v", status, err)
		}
		who, err := p.who()
		if err == nil && who.Version != version {
			err = fmt.Errorf("%s serves; want %s", who.Version, version)
		}
		pid = who.Pid
		return err
	})
	return pid
}

func (p *place) pidFile() int {
	data, _ := os.ReadFile(p.path("pid"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return pid
}

func (p *place) report() databaseReport {
	p.t.Helper()
	out, err := exec.Command(p.path("teleport"), "report", "--data-dir", p.path("data")).Output()
	var r databaseReport
	if err != nil || json.Unmarshal(out, &r) != nil {
		p.t.Fatalf("report: %v: %s", err, out)
	}
	return r
}

// logged waits for a line of the agents' log.
func (p *place) logged(text string) {
	p.t.Helper()
	host.Wait(p.t, 10*time.Second, func() error {
		if !strings.Contains(p.logs.String(), text) {
			return fmt.Errorf("not logged: %q", text)
		}
		return nil
	})
}

// log is the file that the agents of a test write to, whichever of them lives.
type log struct{ file *os.File }

func newLog(t *testing.T) *log {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &log{f}
}

func (l *log) String() string {
	data, err := os.ReadFile(l.file.Name())
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// address is what the agent that started last without a parent listens at.
func (l *log) address() (address string) {
	lines := bufio.NewScanner(strings.NewReader(l.String()))
	for lines.Scan() {
		if _, after, ok := strings.Cut(lines.Text(), " diag_addr="); ok {
			address = after
		}
	}
	return address
}
