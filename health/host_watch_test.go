//go:build hosts

package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/systemd"
)

type hostCase struct {
	name      string
	unit      hostUnit
	one, two  string // behaviour
	stopped   bool   // version 1 does not run when the watch begins
	meanwhile []string
	dies      string // when version 2 is told to die
	waits     bool   // the reload brings nothing, until its limit

	restarted bool
	reason    string // part of an UnhealthyError's; empty: it holds
	old       bool
	byOther   bool
}

const (
	alwaysRestart = "Restart=always\nRestartSec=100ms"
	// untilTakenOver is a reload that ends when the PID file names another process,
	// which systemd then takes for the main one.
	untilTakenOver = `ExecReload=/bin/sh -c "f=/var/tmp/%N/agent.pid; kill -HUP $MAINPID; while [ $(cat $f) = $MAINPID ]; do sleep 0.02; done"`
)

func TestHostReload(t *testing.T) {
	for _, w := range []hostCase{
		{name: "a sound agent takes over without a restart"},
		{name: "the old process may go on draining", one: "drain=1m"},
		{name: "a notifying agent takes over", unit: hostUnit{kind: "notify"}},
		{name: "without a PID file the new process counts while the old one drains", unit: hostUnit{noPID: true}, one: "drain=1m"},
		{name: "the new process dies and the old one serves on", two: "handover=early", dies: "once it is there", reason: "died", old: true},
		{name: "the new process dies under a unit that restarts always", unit: hostUnit{service: alwaysRestart}, two: "handover=early", dies: "once it is there", reason: "died", old: true},
		{name: "the new process dies after it has taken over", two: "handover=late", dies: "once the PID file names it", reason: "died"},
		{name: "the new process dies after systemd has seen it take over", unit: hostUnit{noHUP: true, service: untilTakenOver}, two: "handover=late", dies: "once it is the main process", reason: "died"},
		{name: "the new process takes over and crashes later", two: "exit=1 after=told", dies: "once it is the main process", reason: "exited with status 1"},
		{name: "the new process never takes over", two: "handover=hang", waits: true, restarted: true},
		{name: "an agent that ignores the reload is restarted", one: "hup=ignore", waits: true, restarted: true},
		{name: "an agent that executes its old file again is restarted", one: "hup=exec", waits: true, restarted: true},
		{name: "a unit without a reload is restarted", unit: hostUnit{noHUP: true}, restarted: true},
		{name: "a unit whose reload fails is restarted", unit: hostUnit{noHUP: true, service: "ExecReload=/bin/false"}, restarted: true},
		{name: "a unit that does not run is started", stopped: true, restarted: true},
		{name: "an agent that ignores the reload and dies after the restart", one: "hup=ignore", two: "exit=3 after=500ms", waits: true, reason: "exited with status 3"},
		{name: "somebody else restarts", meanwhile: []string{"restart"}},
		{name: "somebody else stops", meanwhile: []string{"stop"}, reason: "stopped by somebody else", byOther: true},
	} {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			w.run(t, Reload)
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
		{name: "exits with 0 after a while and is restarted", unit: hostUnit{service: "Restart=always\nRestartSec=1m"}, two: "exit=0 after=1s", reason: "exited by itself"},
		{name: "crashes to the start limit", unit: hostUnit{service: "Restart=always\nRestartSec=1ms", limit: "1h"}, two: "exit=1", reason: " "},
		{name: "dies before it tells systemd that it is ready", unit: hostUnit{kind: "notify"}, two: "exit=1", reason: "exited with status 1"}, // in its start, or on a slow machine in its watch
		{name: "never tells systemd that it is ready", unit: hostUnit{kind: "notify", service: "TimeoutStartSec=10s"}, two: "unready", reason: "did not say within 10s that it is ready"},
		{name: "kills itself when it is looked at less often", unit: hostUnit{service: "Restart=always\nRestartSec=1ms"}, two: "exit=1 after=4s", reason: " "},
		{name: "somebody else restarts", restarted: true, meanwhile: []string{"restart"}},
		{name: "somebody else stops", meanwhile: []string{"stop"}, reason: "stopped by somebody else", byOther: true},
		{name: "somebody else stops before it is ready", unit: hostUnit{kind: "notify"}, two: "unready", meanwhile: []string{"stop"}, reason: "stopped by somebody else", byOther: true},
		{name: "systemd re-executes itself", restarted: true, meanwhile: []string{"daemon-reexec"}},
		{name: "systemd reads its units anew", restarted: true, meanwhile: []string{"daemon-reload"}},
	} {
		t.Run(w.name, func(t *testing.T) {
			// systemd's own re-execution would come in the way of all others.
			if len(w.meanwhile) == 0 || w.meanwhile[0] != "daemon-reexec" {
				t.Parallel()
			}
			w.run(t, Restart)
		})
	}
}

func (w hostCase) run(t *testing.T, by Means) {
	for window := hostWindow; !w.runIn(t, by, window); window *= 2 {
		if window > patience {
			t.Fatal("what happened meanwhile was not noticed")
		}
		t.Logf("what was to happen meanwhile came after the window of %v: again, with a longer one", window)
	}
}

// runIn is false where systemd was too slow for the case to say anything.
func (w hostCase) runIn(t *testing.T, by Means, window time.Duration) (said bool) {
	a := newHostAgent(t, w.unit, w.one, w.two)
	var before systemd.Unit
	if !w.stopped {
		before = a.start()
	}
	a.linkTo("2")
	var meanwhile <-chan time.Time
	if len(w.meanwhile) > 0 {
		command := w.meanwhile
		if !strings.HasPrefix(command[0], "daemon") {
			command = append(command, a.unit)
		}
		meanwhile = a.meanwhile(command...)
	}
	watch := a.watch()
	watch.Window = of(window)
	if w.reason != "" {
		watch.Window = of(patience) // it is to end before
	}
	if w.waits {
		watch.ReloadLimit = hostWindow
	}
	if w.dies != "" {
		a.soon(func() bool { return dies[w.dies](a) }, func() { writeHostFile(t, dieFile(a.pidFile()), "") })
	}
	var log bytes.Buffer
	watch.Log = slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), &log), nil))
	began := time.Now()
	out, err := Prove(t.Context(), a.conn, by, watch)
	ended := time.Now()
	t.Logf("%v after %v: %+v", err, ended.Sub(began).Round(time.Millisecond), out)
	if meanwhile != nil {
		late := (<-meanwhile).After(ended)
		if w.meanwhile[0] == "restart" {
			// It may also have come after the last look, and before the end.
			late = !strings.Contains(log.String(), "its watch begins again")
		}
		if late && err == nil {
			return false
		}
	}
	if w.reason != "" {
		e, ok := errors.AsType[*UnhealthyError](err)
		if !ok || !strings.Contains(e.Error(), w.reason) || e.OldServes != w.old || e.Stopped != w.byOther {
			t.Fatalf("%+v; want unhealthy, %q, OldServes %v, Stopped %v", err, w.reason, w.old, w.byOther)
		}
		if now := a.state(); w.old && (now.MainPID != before.MainPID || a.executes(now.MainPID) != "versions/1/bin/agent") {
			t.Errorf("main process %d executes %s; want the old one, %d", now.MainPID, a.executes(now.MainPID), before.MainPID)
		}
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	now := a.state()
	drains := w.one == "drain=1m"
	for began := time.Now(); !drains && a.executes(now.MainPID) != versionTwo; now = a.state() {
		// The old process may take as long to leave as it likes.
		if time.Since(began) > patience {
			t.Fatalf("the main process executes %q", a.executes(now.MainPID))
		}
		time.Sleep(20 * time.Millisecond)
	}
	if out.Restarted != w.restarted || out.MainPID != now.MainPID && (w.restarted || out.MainPID != before.MainPID) {
		t.Errorf("%+v; want restarted %v, main process %d", out, w.restarted, now.MainPID)
	}
	if !w.restarted && len(w.meanwhile) == 0 && now.InvocationID != before.InvocationID {
		t.Error("the unit was restarted")
	}
	if drains && a.executes(before.MainPID) != "versions/1/bin/agent" {
		t.Error("the old process was cut off")
	}
	return true
}

func TestHostRollBackOfACrashLoopAtItsStartLimit(t *testing.T) {
	// Not beside others: when systemd reads its units anew it forgets the count.
	a := newHostAgent(t, hostUnit{service: "Restart=always\nRestartSec=1ms", limit: "1h"}, "", "exit=1")
	a.start()
	a.linkTo("2")
	if _, err := Prove(t.Context(), a.conn, Restart, a.watch()); err == nil {
		t.Fatal("a crash loop held")
	}
	for began := time.Now(); a.state().ActiveState != "failed"; time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > patience {
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
	if _, err := Prove(t.Context(), a.conn, Start, w); err != nil {
		t.Error(err)
	}
}

func TestHostRestartInTheMiddleOfACrashLoopIsNotTheNewVersionsCrash(t *testing.T) {
	t.Parallel()
	a := newHostAgent(t, hostUnit{service: "Restart=always\nRestartSec=20ms"}, "exit=1", "")
	a.systemctl("start", a.unit)
	for began := time.Now(); a.state().NRestarts < 3; time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatal("the old version does not crash")
		}
	}
	a.linkTo("2")
	if _, err := Prove(t.Context(), a.conn, Reload, a.watch()); err != nil {
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
	job, err := a.conn.QueueJob(t.Context(), systemd.VerbReload, a.unit)
	if err == nil {
		err = a.conn.WaitJob(t.Context(), job, time.Minute)
	}
	if err == nil {
		t.Error("a stopped unit was reloaded")
	} else if _, ok := errors.AsType[*systemd.JobError](err); !ok {
		t.Errorf("%T; want a *JobError", err)
	}
}

func TestHostDanglingLink(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"simple", "exec"} {
		a := newHostAgent(t, hostUnit{kind: kind}, "", "")
		a.start()
		os.Remove(a.link)
		_, err := Prove(t.Context(), a.conn, Restart, a.watch())
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
	w := a.watch()
	w.ReloadLimit = hostWindow
	_, err := Prove(t.Context(), a.conn, Running, w)
	if e, ok := errors.AsType[*UnhealthyError](err); !ok || !e.OldServes {
		t.Errorf("the old version: %v; want unhealthy and that it serves", err)
	}
	time.AfterFunc(300*time.Millisecond, func() { exec.Command("systemctl", "reload", a.unit).Run() })
	if out, err := Prove(t.Context(), a.conn, Running, a.watch()); err != nil || out.Restarted {
		t.Errorf("a hand-over on its way: %+v, %v", out, err)
	}
	if _, err := Prove(t.Context(), a.conn, Running, a.watch()); err != nil {
		t.Errorf("the new version: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	w.Window = of(patience)
	if _, err := Prove(ctx, a.conn, Running, w); !errors.Is(err, context.DeadlineExceeded) {
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
	if _, err := Prove(t.Context(), a.conn, Reload, w); err != nil {
		t.Error(err)
	}
}

func TestHostOverTheSystemBus(t *testing.T) {
	t.Parallel()
	a := newHostAgent(t, hostUnit{}, "", "")
	root := t.TempDir()
	for _, dir := range []string{"run/systemd/system", "run/dbus"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/run/dbus/system_bus_socket", root+"/run/dbus/system_bus_socket"); err != nil {
		t.Fatal(err)
	}
	conn, err := systemd.DialRoot(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	a.start()
	a.linkTo("2")
	if _, err := Prove(t.Context(), conn, Reload, a.watch()); err != nil {
		t.Error(err)
	}
	stopped := a.meanwhile("stop", a.unit)
	w := a.watch()
	w.Window = of(patience)
	_, err = Prove(t.Context(), conn, Restart, w)
	if e, ok := errors.AsType[*UnhealthyError](err); !ok || !e.Stopped {
		t.Errorf("%v; want Stopped", err)
	}
	<-stopped
}

// TestShutdown ends the host, so it runs only where the environment says that it
// may.
func TestShutdown(t *testing.T) {
	if os.Getenv("DISPOSABLE_HOST") != "stop" {
		t.Skip("DISPOSABLE_HOST is not \"stop\": this would stop the host it runs on")
	}
	a := newHostAgent(t, hostUnit{}, "", "")
	a.start()
	// A small host has stopped before anybody could look. This unit stops when the
	// test is over, and the host with it.
	writeHostFile(t, "/etc/systemd/system/hold.service", fmt.Sprintf("[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n"+
		"ExecStop=/bin/sh -c \"while kill -0 %d; do sleep 0.05; done\"\n", os.Getpid()))
	a.systemctl("daemon-reload")
	a.systemctl("start", "hold.service")
	a.linkTo("2")
	a.meanwhile("poweroff")
	w := a.watch()
	w.Window = of(time.Minute)
	if _, err := Prove(t.Context(), a.conn, Restart, w); !errors.Is(err, ErrHostStopping) {
		t.Fatalf("%v; want ErrHostStopping", err)
	}
	if _, err := Prove(t.Context(), a.conn, Restart, w); !errors.Is(err, ErrHostStopping) {
		t.Fatalf("a restart while the host stops: %v; want ErrHostStopping", err)
	}
}
