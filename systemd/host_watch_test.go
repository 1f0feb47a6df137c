//go:build host

package systemd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hostAgent is an agent's unit of which version 1 runs, linked, and version 2 is
// there.
type hostAgent struct {
	t          *testing.T
	conn       *Conn
	root, unit string
	link       string
}

type hostUnit struct {
	kind    string // Type=, empty: simple
	service string // more lines of [Service]
	limit   string // StartLimitIntervalSec=, empty: no limit
	noPID   bool   // no PIDFile=
	noHUP   bool   // no ExecReload=
}

func newHostAgent(t *testing.T, u hostUnit, one, two string) *hostAgent {
	t.Helper()
	conn, err := Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	root, err := os.MkdirTemp("/var/tmp", "agent")
	if err != nil {
		t.Fatal(err)
	}
	a := &hostAgent{t: t, conn: conn, root: root, unit: filepath.Base(root) + ".service", link: root + "/agent"}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for version, behaviour := range map[string]string{"1": one, "2": two} {
		bin := filepath.Join(root, "versions", version, "bin")
		if err := os.MkdirAll(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(self, bin+"/agent"); err != nil {
			t.Fatal(err)
		}
		writeHostFile(t, filepath.Join(root, "versions", version, "behaviour"), behaviour)
	}
	a.linkTo("1")
	if u.kind == "" {
		u.kind = "simple"
	}
	if u.limit == "" {
		u.limit = "0"
	}
	text := "[Unit]\nStartLimitIntervalSec=" + u.limit + "\n" + fmt.Sprintf("[Service]\nTimeoutStopSec=2s\nType=%s\nExecStart=%s %s\n%s\n", u.kind, a.link, a.pidFile(), u.service)
	if !u.noPID {
		text += "PIDFile=" + a.pidFile() + "\n"
	}
	if !u.noHUP {
		text += "ExecReload=/bin/sh -c \"kill -HUP $(cat " + a.pidFile() + ")\"\n"
	}
	file := "/etc/systemd/system/" + a.unit
	writeHostFile(t, file, text)
	// Enabled, because systemd forgets how a unit ended that nothing refers to.
	wants := "/etc/systemd/system/multi-user.target.wants/" + a.unit
	if err := os.Symlink(file, wants); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		exec.Command("systemctl", "stop", a.unit).Run()
		exec.Command("systemctl", "reset-failed", a.unit).Run()
		os.Remove(wants)
		os.Remove(file)
		os.RemoveAll(root)
	})
	a.systemctl("daemon-reload")
	return a
}

func writeHostFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (a *hostAgent) pidFile() string { return a.root + "/agent.pid" }

func (a *hostAgent) linkTo(version string) {
	a.t.Helper()
	os.Remove(a.link)
	if err := os.Symlink(filepath.Join(a.root, "versions", version, "bin/agent"), a.link); err != nil {
		a.t.Fatal(err)
	}
}

func (a *hostAgent) systemctl(args ...string) {
	a.t.Helper()
	if out, err := exec.Command("systemctl", args...).CombinedOutput(); err != nil {
		a.t.Fatalf("systemctl %q: %v: %s", args, err, out)
	}
}

func (a *hostAgent) start() Unit {
	a.t.Helper()
	if err := a.conn.Start(a.t.Context(), a.unit); err != nil {
		a.t.Fatal(err)
	}
	// The job is done before the agent has written its PID file.
	for began := time.Now(); ; {
		if data, err := os.ReadFile(a.pidFile()); err == nil && len(data) > 0 {
			return a.state()
		}
		if time.Since(began) > 10*time.Second {
			a.t.Fatal("the agent does not start")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (a *hostAgent) state() Unit {
	a.t.Helper()
	u, err := a.conn.Unit(a.t.Context(), a.unit)
	if err != nil {
		a.t.Fatal(err)
	}
	return u
}

func (a *hostAgent) executes(pid uint32) string {
	exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return strings.TrimPrefix(exe, a.root+"/")
}

// watch is one of version 2, short because nothing in these tests takes long.
func (a *hostAgent) watch() Watch {
	return Watch{Unit: a.unit, Dir: a.root + "/versions/2", Window: 1500 * time.Millisecond, ReloadLimit: 1500 * time.Millisecond}
}

// meanwhile does something as soon as the new version runs.
func (a *hostAgent) meanwhile(systemctl ...string) {
	go func() {
		for {
			data, _ := os.ReadFile(a.pidFile())
			if pid, _ := strconv.Atoi(strings.TrimSpace(string(data))); a.executes(uint32(pid)) == "versions/2/bin/agent" {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(300 * time.Millisecond)
		if out, err := exec.Command("systemctl", systemctl...).CombinedOutput(); err != nil {
			a.t.Errorf("systemctl %q: %v: %s", systemctl, err, out)
		}
	}()
}

type hostCase struct {
	name      string
	unit      hostUnit
	one, two  string // behaviour
	stopped   bool   // version 1 does not run when the watch begins
	meanwhile []string

	restarted bool
	reason    string // part of an UnhealthyError's; empty: it holds
	old       bool
	byOther   bool
}

const alwaysRestart = "Restart=always\nRestartSec=100ms"

func TestHostReload(t *testing.T) {
	for _, w := range []hostCase{
		{name: "a sound agent takes over without a restart"},
		{name: "the old process may go on draining", one: "drain=1m"},
		{name: "a notifying agent takes over", unit: hostUnit{kind: "notify"}},
		{name: "without a PID file the new process counts while the old one drains", unit: hostUnit{noPID: true}, one: "drain=1m"},
		{name: "the new process dies and the old one serves on", two: "handover=early", reason: "died", old: true},
		{name: "the new process dies quickly under a unit that restarts always", unit: hostUnit{service: alwaysRestart}, two: "handover=early", reason: "died", old: true},
		{name: "the new process dies after it has taken over", two: "handover=late", reason: "died"},
		{name: "the new process dies after systemd has seen it take over", unit: hostUnit{noHUP: true, service: "ExecReload=/bin/sh -c \"kill -HUP $MAINPID; sleep 0.2\""}, two: "handover=late", reason: "died"},
		{name: "the new process takes over and crashes later", two: "exit=1 after=1s", reason: "exited with status 1"},
		{name: "the new process never takes over", two: "handover=hang", restarted: true},
		{name: "an agent that ignores the reload is restarted", one: "hup=ignore", restarted: true},
		{name: "an agent that executes its old file again is restarted", one: "hup=exec", restarted: true},
		{name: "a unit without a reload is restarted", unit: hostUnit{noHUP: true}, restarted: true},
		{name: "a unit whose reload fails is restarted", unit: hostUnit{noHUP: true, service: "ExecReload=/bin/false"}, restarted: true},
		{name: "a unit that does not run is started", stopped: true, restarted: true},
		{name: "an agent that ignores the reload and dies after the restart", one: "hup=ignore", two: "exit=3 after=500ms", reason: "exited with status 3"},
		{name: "somebody else restarts", meanwhile: []string{"restart"}},
		{name: "somebody else stops", meanwhile: []string{"stop"}, reason: "stopped by somebody else", byOther: true},
	} {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			w.run(t, (*Conn).ReloadAndWatch)
		})
	}
}

func TestHostRestart(t *testing.T) {
	for _, w := range []hostCase{
		{name: "a sound agent holds", restarted: true},
		{name: "a notifying agent holds", unit: hostUnit{kind: "notify"}, restarted: true},
		{name: "a slow start is waited for", unit: hostUnit{service: "ExecStartPre=/bin/sleep 1"}, restarted: true},
		{name: "exits at once", unit: hostUnit{service: alwaysRestart}, two: "exit=1", reason: " "},
		{name: "exits at once and is restarted at once", unit: hostUnit{service: "Restart=always\nRestartSec=0"}, two: "exit=1", reason: " "},
		{name: "exits with 0", unit: hostUnit{service: "Restart=on-failure"}, two: "exit=0", reason: "exited by itself"},
		{name: "exits with 0 after a while and is restarted", unit: hostUnit{service: alwaysRestart}, two: "exit=0 after=1s", reason: "exited by itself"},
		{name: "crashes to the start limit", unit: hostUnit{service: "Restart=always\nRestartSec=1ms", limit: "1h"}, two: "exit=1", reason: " "},
		{name: "dies before it tells systemd that it is ready", unit: hostUnit{kind: "notify"}, two: "exit=1", reason: "did not start: it exited with status 1"},
		{name: "never tells systemd that it is ready", unit: hostUnit{kind: "notify", service: "TimeoutStartSec=1s"}, two: "unready", reason: "did not start"},
		{name: "kills itself late in the window", unit: hostUnit{service: "Restart=always\nRestartSec=1ms"}, two: "exit=1 after=1300ms", reason: " "},
		{name: "somebody else restarts", restarted: true, meanwhile: []string{"restart"}},
		{name: "somebody else stops", meanwhile: []string{"stop"}, reason: "stopped by somebody else", byOther: true},
		{name: "systemd re-executes itself", restarted: true, meanwhile: []string{"daemon-reexec"}},
		{name: "systemd reads its units anew", restarted: true, meanwhile: []string{"daemon-reload"}},
	} {
		t.Run(w.name, func(t *testing.T) {
			// systemd's own re-execution would come in the way of all others.
			if len(w.meanwhile) == 0 || w.meanwhile[0] != "daemon-reexec" {
				t.Parallel()
			}
			w.run(t, (*Conn).RestartAndWatch)
		})
	}
}

func (w hostCase) run(t *testing.T, act func(*Conn, context.Context, Watch) (Outcome, error)) {
	a := newHostAgent(t, w.unit, w.one, w.two)
	var before Unit
	if !w.stopped {
		before = a.start()
	}
	a.linkTo("2")
	if len(w.meanwhile) > 0 {
		command := w.meanwhile
		if !strings.HasPrefix(command[0], "daemon") {
			command = append(command, a.unit)
		}
		a.meanwhile(command...)
	}
	watch := a.watch()
	watch.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	began := time.Now()
	out, err := act(a.conn, t.Context(), watch)
	t.Logf("%v after %v: %+v", err, time.Since(began).Round(time.Millisecond), out)
	if w.reason != "" {
		e, ok := errors.AsType[*UnhealthyError](err)
		if !ok || !strings.Contains(e.Error(), w.reason) || e.OldServes != w.old || e.Stopped != w.byOther {
			t.Fatalf("%+v; want unhealthy, %q, OldServes %v, Stopped %v", err, w.reason, w.old, w.byOther)
		}
		if now := a.state(); w.old && (now.MainPID != before.MainPID || a.executes(now.MainPID) != "versions/1/bin/agent") {
			t.Errorf("main process %d executes %s; want the old one, %d", now.MainPID, a.executes(now.MainPID), before.MainPID)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	now := a.state()
	if out.Restarted != w.restarted || out.MainPID != now.MainPID {
		t.Errorf("%+v; want restarted %v, main process %d", out, w.restarted, now.MainPID)
	}
	if !w.restarted && len(w.meanwhile) == 0 && now.InvocationID != before.InvocationID {
		t.Error("the unit was restarted")
	}
	if drains := w.one == "drain=1m"; drains && a.executes(before.MainPID) != "versions/1/bin/agent" {
		t.Error("the old process was cut off")
	} else if !drains && a.executes(now.MainPID) != "versions/2/bin/agent" {
		t.Errorf("the main process executes %q", a.executes(now.MainPID))
	}
}

func TestHostRollBackOfACrashLoopAtItsStartLimit(t *testing.T) {
	t.Parallel()
	a := newHostAgent(t, hostUnit{service: "Restart=always\nRestartSec=1ms", limit: "1h"}, "", "exit=1")
	a.start()
	a.linkTo("2")
	if _, err := a.conn.RestartAndWatch(t.Context(), a.watch()); err == nil {
		t.Fatal("a crash loop held")
	}
	for began := time.Now(); a.state().ActiveState != "failed"; time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("the start limit was not reached: %+v", a.state())
		}
	}
	if exec.Command("systemctl", "start", a.unit).Run() == nil {
		t.Error("systemd starts a unit at its limit: this test shows nothing")
	}
	a.linkTo("1")
	w := a.watch()
	w.Dir = a.root + "/versions/1"
	if err := a.conn.Stop(t.Context(), a.unit); err != nil {
		t.Fatal(err)
	}
	if _, err := a.conn.StartAndWatch(t.Context(), w); err != nil {
		t.Error(err)
	}
}

func TestHostRestartInTheMiddleOfACrashLoopIsNotTheNewVersionsCrash(t *testing.T) {
	t.Parallel()
	a := newHostAgent(t, hostUnit{service: "Restart=always\nRestartSec=20ms"}, "exit=1", "")
	a.systemctl("start", a.unit)
	for began := time.Now(); a.state().NRestarts < 3; time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("the old version does not crash")
		}
	}
	a.linkTo("2")
	if _, err := a.conn.ReloadAndWatch(t.Context(), a.watch()); err != nil {
		t.Error(err)
	}
}

func TestHostStopOfAProcessThatIgnoresIt(t *testing.T) {
	t.Parallel()
	a := newHostAgent(t, hostUnit{service: "TimeoutStopSec=500ms"}, "term=ignore", "")
	a.start()
	if err := a.conn.Stop(t.Context(), a.unit); err != nil {
		t.Fatal(err)
	}
	if u := a.state(); u.Running() || u.MainPID != 0 || u.Result != "timeout" {
		t.Errorf("%+v", u)
	}
	if err := a.conn.Stop(t.Context(), a.unit); err != nil {
		t.Errorf("stop what is stopped: %v", err)
	}
	if err := a.conn.Reload(t.Context(), a.unit); err == nil {
		t.Error("a stopped unit was reloaded")
	} else if _, ok := errors.AsType[*JobError](err); !ok {
		t.Errorf("%T; want a *JobError", err)
	}
}

func TestHostDanglingLink(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"simple", "exec"} {
		a := newHostAgent(t, hostUnit{kind: kind}, "", "")
		a.start()
		os.Remove(a.link)
		_, err := a.conn.RestartAndWatch(t.Context(), a.watch())
		if e, ok := errors.AsType[*UnhealthyError](err); !ok || !strings.Contains(e.Reason, "could not be executed") {
			t.Errorf("Type=%s: %v", kind, err)
		}
	}
}

func TestHostWatchRunning(t *testing.T) {
	t.Parallel()
	a := newHostAgent(t, hostUnit{}, "", "")
	a.start()
	a.linkTo("2")
	_, err := a.conn.WatchRunning(t.Context(), a.watch())
	if e, ok := errors.AsType[*UnhealthyError](err); !ok || !e.OldServes {
		t.Errorf("the old version: %v; want unhealthy and that it serves", err)
	}
	time.AfterFunc(300*time.Millisecond, func() { exec.Command("systemctl", "reload", a.unit).Run() })
	if out, err := a.conn.WatchRunning(t.Context(), a.watch()); err != nil || out.Restarted {
		t.Errorf("a hand-over on its way: %+v, %v", out, err)
	}
	if _, err := a.conn.WatchRunning(t.Context(), a.watch()); err != nil {
		t.Errorf("the new version: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := a.conn.WatchRunning(ctx, a.watch()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v; want the context's error", err)
	}
}

func TestHostThroughALinkToTheDataFolder(t *testing.T) {
	t.Parallel()
	a := newHostAgent(t, hostUnit{}, "", "")
	a.start()
	a.linkTo("2")
	if err := os.Symlink(a.root+"/versions", a.root+"/elsewhere"); err != nil {
		t.Fatal(err)
	}
	w := a.watch()
	w.Dir = a.root + "/elsewhere/2"
	if _, err := a.conn.ReloadAndWatch(t.Context(), w); err != nil {
		t.Error(err)
	}
}

func TestHostOverTheSystemBus(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{"run/systemd/system", "run/dbus"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/run/dbus/system_bus_socket", root+"/run/dbus/system_bus_socket"); err != nil {
		t.Fatal(err)
	}
	conn, err := dial(t.Context(), dialer{root})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	a := newHostAgent(t, hostUnit{}, "", "")
	a.start()
	a.linkTo("2")
	if _, err := conn.ReloadAndWatch(t.Context(), a.watch()); err != nil {
		t.Error(err)
	}
	a.meanwhile("stop", a.unit)
	_, err = conn.RestartAndWatch(t.Context(), a.watch())
	if e, ok := errors.AsType[*UnhealthyError](err); !ok || !e.Stopped {
		t.Errorf("%v; want Stopped", err)
	}
}
