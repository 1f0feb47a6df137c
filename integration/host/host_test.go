//go:build hosts

package host

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv(victimVariable) != "" {
		os.Exit(victim())
	}
	os.Exit(Main(m))
}

func TestCommandsInAHost(t *testing.T) {
	t.Parallel()
	h := ForTest(t, Options{})

	t.Run("the system is up and has the host's name", func(t *testing.T) {
		if got := h.Must("systemctl", "is-system-running"); got != "running" {
			t.Errorf("the system is %q; failed units:\n%s", got, h.Must("systemctl", "--failed"))
		}
		if got := h.Must("hostname"); got != h.Name {
			t.Errorf("hostname is %q; want %q", got, h.Name)
		}
		if got := h.Must("systemctl", "list-timers", "--no-legend"); got != "" {
			t.Errorf("timers run that are not the test's:\n%s", got)
		}
	})
	for _, tc := range []struct {
		name string
		c    Command
		want Result
	}{
		{"both streams and the exit code are kept", Command{Args: []string{"sh", "-c", "echo out; echo err >&2; exit 3"}},
			Result{Stdout: "out\n", Stderr: "err\n", Code: 3}},
		{"standard input is passed on", Command{Args: []string{"cat"}, Stdin: strings.NewReader("hello")}, Result{Stdout: "hello"}},
		{"the environment is a root shell's", Command{Args: []string{"sh", "-c", "echo $HOME $ADDED $PWD"}, Env: []string{"ADDED=1"}},
			Result{Stdout: "/root 1 /\n"}},
		{"a command killed by a signal has its number", Command{Args: []string{"sh", "-c", "kill -TERM $$"}}, Result{Code: 143}},
		{"a command outside of all units is in none", Command{Args: []string{"sh", "-c", "grep ^0: /proc/self/cgroup"}},
			Result{Stdout: "0::/operator\n"}},
		{"a command can be put among a unit's processes", Command{Unit: "dbus.service", Args: []string{"sh", "-c", "grep ^0: /proc/self/cgroup"}},
			Result{Stdout: "0::/system.slice/dbus.service\n"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := h.RunCommand(t.Context(), tc.c)
			if got.Took = 0; err != nil || got != tc.want {
				t.Errorf("got %+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
	t.Run("a command that does not exist", func(t *testing.T) {
		if got := h.Try("no-such-command"); got.Code != 127 {
			t.Errorf("got %+v; want exit code 127", got)
		}
	})
	t.Run("a background command can be watched and signalled", func(t *testing.T) {
		p := h.Background(Command{Args: []string{"sh", "-c", "trap 'exit 9' USR1; echo begun; while :; do sleep 0.05; done"}})
		Wait(t, 10*time.Second, func() error {
			if out, _ := p.Output(); out != "begun\n" {
				return fmt.Errorf("output is %q", out)
			}
			return nil
		})
		if err := p.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		if r, err := p.Wait(); err != nil || r.Code != 9 {
			t.Errorf("got %+v, %v; want exit code 9", r, err)
		}
	})
	t.Run("the end of the context kills a command and its children", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if r, err := h.Run(ctx, "sh", "-c", "sleep 7654 & wait"); err == nil {
			t.Errorf("got %+v; want an error", r)
		}
		Wait(t, 10*time.Second, func() error {
			if r := h.Try("pgrep", "-f", "sleep 7654"); r.Code != 1 {
				return fmt.Errorf("still there: %s", r.Stdout)
			}
			return nil
		})
	})
}

func TestFilesAreTheHostsOwn(t *testing.T) {
	t.Parallel()
	h := MadeForTest(t, Options{})
	h.Write("/opt/a/b/file", "before the boot")
	if err := h.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := h.Must("cat", "/opt/a/b/file"); got != "before the boot" {
		t.Errorf("the host reads %q", got)
	}
	h.Must("sh", "-c", "echo inside > /opt/target; ln -s /opt/target /opt/link; ln -s /nowhere /opt/dangling; echo run > /run/volatile")
	if got := h.Read("/opt/link"); got != "inside\n" {
		t.Errorf("through an absolute link: %q; want the host's file", got)
	}
	if got := h.Link("/opt/link"); got != "/opt/target" {
		t.Errorf("the link says %q", got)
	}
	if got := h.Read("/run/volatile"); got != "run\n" {
		t.Errorf("a file on the host's tmpfs: %q", got)
	}
	if !h.Exists("/opt/dangling") || h.Exists("/opt/none") {
		t.Error("a dangling link has to exist, a missing file not")
	}
	before := h.Tree("/opt", "/nowhere")
	h.Unchanged(before, h.Tree("/opt", "/nowhere"))
	h.Must("sh", "-c", "cd /opt; echo more >> target; chmod 600 a/b/file; chown 1:1 dangling -h; ln -sfn /etc link; mkdir new; rm -r a/b/none 2>/dev/null; touch a/b")
	var changed []string
	for _, line := range before.Diff(h.Tree("/opt", "/nowhere")) {
		path, _, _ := strings.Cut(line, ": ")
		changed = append(changed, path)
	}
	if got, want := strings.Join(changed, " "), "/opt/a/b/file /opt/dangling /opt/link /opt/new /opt/target"; got != want {
		t.Errorf("changed: %s\nwant:    %s", got, want)
	}
	if err := h.Remove("/opt/a"); err != nil || h.Exists("/opt/a") {
		t.Errorf("remove: %v", err)
	}
}

func TestAHostSurvivesRebootsAndPowerCuts(t *testing.T) {
	t.Parallel()
	h := ForTest(t, Options{})
	l, err := h.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		t.Fatal(err)
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "the test serves") }))
	ask := func() string {
		resp, err := h.HTTP().Get("http://127.0.0.1:8080")
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return string(body)
	}
	h.Must("sh", "-c", "echo kept > /opt/file; echo first boot | systemd-cat -t story")
	boots := map[string]bool{h.Must("cat", "/proc/sys/kernel/random/boot_id"): true}
	for _, end := range []struct {
		name string
		do   func() error
	}{
		{"reboot", func() error { return h.PowerOff(t.Context()) }},
		{"power cut", func() error { return h.Kill() }},
		{"reboot from inside", func() error {
			h.Try("systemctl", "reboot")
			return h.WaitOff(t.Context())
		}},
	} {
		if err := end.do(); err != nil {
			t.Fatalf("%s: %v", end.name, err)
		}
		if h.Running() {
			t.Fatalf("%s: the host is still running", end.name)
		}
		if _, err := h.Run(t.Context(), "true"); err == nil {
			t.Fatalf("%s: a command ran on a host that is off", end.name)
		}
		if log := h.Log(""); !strings.Contains(log, "first boot") {
			t.Errorf("%s: the journal of a host that is off lacks what it had logged", end.name)
		}
		if got := h.Read("/opt/file"); got != "kept\n" {
			t.Errorf("%s: the file holds %q", end.name, got)
		}
		if err := h.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
		if id := h.Must("cat", "/proc/sys/kernel/random/boot_id"); boots[id] {
			t.Errorf("%s: boot id %s again", end.name, id)
		}
		if got := ask(); got != "the test serves" {
			t.Errorf("%s: asked over the host's network: %s", end.name, got)
		}
	}
}

func TestHostsDoNotShareUnits(t *testing.T) {
	t.Parallel()
	a, b := ForTest(t, Options{}), ForTest(t, Options{})
	for _, h := range []*Test{a, b} {
		h.Write("/etc/systemd/system/same.service", "[Service]\nExecStart=sleep infinity\n")
		h.Must("systemctl", "start", "same")
	}
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", a.running.leader))
	if err != nil || !strings.Contains(string(groups), a.Name) || strings.Contains(string(groups), b.Name) {
		t.Errorf("the first host's groups: %s, %v", groups, err)
	}
	a.Must("systemctl", "stop", "same")
	if got := b.Show("same", "ActiveState"); got != "active" {
		t.Errorf("stopped on one host, the unit is %s on the other", got)
	}
	if got := a.Show("same", "ActiveState"); got != "inactive" {
		t.Errorf("stopped, the unit is %s", got)
	}
	if got := a.Show("none.service", "LoadState"); got != "not-found" {
		t.Errorf("a unit that does not exist is %s", got)
	}
}

func TestAPlainHostRunsNoSystemd(t *testing.T) {
	t.Parallel()
	h := ForTest(t, Options{Plain: true})
	if h.Exists("/run/systemd/system") {
		t.Error("/run/systemd/system is there")
	}
	if r := h.Try("systemctl", "is-system-running"); r.Code == 0 || strings.TrimSpace(r.Stdout) != "offline" {
		t.Errorf("systemctl says %+v; want offline", r)
	}
	if err := h.Reboot(t.Context()); err != nil {
		t.Error(err)
	}
}
