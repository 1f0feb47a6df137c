//go:build hosts

package systemd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// follower runs its arguments in a transient unit.
func follower() int {
	conn, err := Dial(context.Background())
	if err == nil {
		var code int
		code, err = conn.RunTransient(context.Background(), Transient{Argv: os.Args[1:]})
		if err == nil {
			return code
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 99
}

// dialHost connects to the systemd of a host that these tests may do with what
// they like.
func dialHost(t *testing.T) *Conn {
	t.Helper()
	if os.Getenv("DISPOSABLE_HOST") == "" {
		t.Skip("DISPOSABLE_HOST is not set: this would change the units of the host it runs on")
	}
	conn, err := Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func sh(script string) []string { return []string{"/bin/sh", "-c", script} }

func TestHostTransient(t *testing.T) {
	conn := dialHost(t)
	for _, w := range []struct {
		name  string
		t     Transient
		code  int
		error string
		out   string // what it writes, or a part
	}{
		{name: "success", t: Transient{Argv: sh("exit 0")}},
		{name: "the exit code", t: Transient{Argv: sh("exit 4")}, code: 4},
		{name: "a program that takes a while", t: Transient{Argv: sh("sleep 1; exit 3")}, code: 3},
		{name: "input, output and the environment", t: Transient{Argv: sh(`read x; echo "$x $NAME"; echo err >&2; exit 1`), Env: []string{"NAME=a b"}}, code: 1, out: "typed a b\nerr\n"},
		{name: "a signal", t: Transient{Argv: sh("kill -9 $$")}, code: 137, error: "SIGKILL"},
		{name: "no such program", t: Transient{Argv: []string{"/no/such/program"}}, code: -1, error: "could not be executed"},
		{name: "a relative path", t: Transient{Argv: []string{"sh"}}, code: -1, error: "absolute"},
		{name: "too long", t: Transient{Argv: sh("exec sleep 100"), RuntimeMax: 300 * time.Millisecond}, code: 143, error: "timeout"},
		{name: "its group is its own, not ours", t: Transient{Argv: sh(`cat /proc/self/cgroup >&2`)}, out: ":/system.slice/teleport-update-switch-own.service\n"},
	} {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(w.out, "-own.") {
				w.t.Name = "teleport-update-switch-own.service"
			}
			in, typing, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			typing.WriteString("typed\n")
			typing.Close()
			screen, out, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			w.t.Stdin, w.t.Stdout, w.t.Stderr = in, out, out
			code, err := conn.RunTransient(t.Context(), w.t)
			if code != w.code || (err == nil) != (w.error == "") || err != nil && !strings.Contains(err.Error(), w.error) {
				t.Errorf("%d, %v; want %d, %q", code, err, w.code, w.error)
			}
			out.Close()
			if got, err := io.ReadAll(screen); err != nil || !strings.Contains(string(got), w.out) || w.out == "" && len(got) > 0 {
				t.Errorf("output %q, %v; want %q", got, err, w.out)
			}
		})
	}
	t.Cleanup(func() {
		if left := transients(t); left != "" {
			t.Errorf("left behind: %s", left)
		}
	})
}

func transients(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("systemctl", "list-units", "--all", "--plain", "--no-legend", transientPrefix+"*").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestHostTransientOutlivesItsCaller(t *testing.T) {
	conn := dialHost(t)
	dir, err := os.MkdirTemp("/var/tmp", "follower")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Link(self, dir+"/follower"); err != nil {
		t.Fatal(err)
	}
	// The follower is in the cgroup of a service that is stopped in the middle.
	const unit = "caller.service"
	script := fmt.Sprintf("touch %[1]s/began; systemctl stop %[2]s; sleep 0.3; systemctl is-active %[2]s > %[1]s/state; touch %[1]s/done", dir, unit)
	file := "/etc/systemd/system/" + unit
	writeHostFile(t, file, "[Service]\nExecStart="+dir+"/follower /bin/sh -c \""+script+"\"\n")
	t.Cleanup(func() {
		os.Remove(file)
		exec.Command("systemctl", "daemon-reload").Run()
	})
	if err := conn.DaemonReload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := conn.Start(t.Context(), unit); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(dir + "/done"); err == nil {
			break
		}
		if time.Since(began) > 15*time.Second {
			t.Fatal("the program died with its caller")
		}
	}
	if state, _ := os.ReadFile(dir + "/state"); string(state) != "inactive\n" {
		t.Errorf("the caller was %q: this test shows nothing", state)
	}
	for began := time.Now(); !strings.Contains(transients(t), "exited"); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 5*time.Second {
			t.Fatalf("left is %q; want an exited unit that nobody waited for", transients(t))
		}
	}
	// The next call removes it, but only when it is older than a moment: whoever
	// waits for it may be about to read its exit code.
	conn.removeEnded(t.Context(), time.Minute)
	if transients(t) == "" {
		t.Error("the exit code was taken away at once")
	}
	conn.removeEnded(t.Context(), 0)
	if left := transients(t); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

func TestHostTransientGoesOnWhenItsCallerGivesUp(t *testing.T) {
	conn := dialHost(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	const name = transientPrefix + "given-up.service"
	_, err := conn.RunTransient(ctx, Transient{Name: name, Argv: sh("sleep 1; exit 5")})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v; want the context's error", err)
	}
	if u, err := conn.Unit(t.Context(), name); err != nil || !u.Running() {
		t.Errorf("%+v, %v; want a program that goes on", u, err)
	}
	// Whoever follows again gets the exit code.
	if code, err := conn.follow(t.Context(), name); code != 5 || err != nil {
		t.Errorf("%d, %v; want 5", code, err)
	}
}

func TestHostTransientThroughAReexecution(t *testing.T) {
	conn := dialHost(t)
	time.AfterFunc(300*time.Millisecond, func() { exec.Command("systemctl", "daemon-reexec").Run() })
	code, err := conn.RunTransient(t.Context(), Transient{Argv: sh("sleep 2; exit 6")})
	if code != 6 || err != nil {
		t.Errorf("%d, %v; want 6", code, err)
	}
}

func TestHostUnits(t *testing.T) {
	conn := dialHost(t)
	root, err := os.MkdirTemp("/var/tmp", "units with 100% ")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	// An update that restarts the agent, from the unit that is ordered after it.
	writeHostFile(t, root+"/updater", "#!/bin/sh\necho \"$TELEPORT_UPDATE_SCHEDULED $*\" >> \"${0%/*}/ran\"\n[ \"$3\" = update ] || exit 0\nsystemctl restart teleport.service && systemctl stop teleport.service && systemctl start teleport.service\n")
	if err := os.Chmod(root+"/updater", 0o755); err != nil {
		t.Fatal(err)
	}
	const agent = "/etc/systemd/system/teleport.service"
	writeHostFile(t, agent, "[Service]\nExecStart=/bin/sleep 1000\n")
	units := Units{Binary: root + "/updater", DataDir: root + "/data"}
	t.Cleanup(func() {
		exec.Command("systemctl", "stop", "teleport.service").Run()
		os.Remove(agent)
		if err := units.Remove(context.Background(), conn); err != nil {
			t.Error(err)
		}
		if out, _ := exec.Command("sh", "-c", "ls -d /etc/systemd/system/*/teleport* /usr/local/lib/systemd/system/* /var/lib/systemd/timers/*teleport-update*").Output(); len(out) > 0 {
			t.Errorf("left behind: %s", out)
		}
		if u, err := conn.Unit(context.Background(), timerUnit); err != nil || u.LoadState != "not-found" {
			t.Errorf("%+v, %v; want no timer", u, err)
		}
	})
	for range 2 {
		if err := units.Install(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		if problems := units.Problems(); problems != nil {
			t.Errorf("problems: %q", problems)
		}
	}
	for unit, want := range map[string]string{timerUnit: "enabled", "teleport-update-recover.service": "enabled", "teleport-update.service": "static"} {
		if u, err := conn.Unit(t.Context(), unit); err != nil || u.UnitFileState != want || u.FragmentPath != filepath.Join(DefaultUnitDir, unit) {
			t.Errorf("%+v, %v; want %s", u, err, want)
		}
	}
	if u, err := conn.Unit(t.Context(), timerUnit); err != nil || u.ActiveState != "active" {
		t.Errorf("%+v, %v; want a timer that runs", u, err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := conn.Start(ctx, "teleport-update.service"); err != nil {
		t.Fatalf("an update before the first enable: %v", err)
	}
	if ran, err := os.ReadFile(root + "/ran"); err == nil {
		t.Errorf("an update ran before the first enable: %q", ran)
	}
	if err := os.MkdirAll(root+"/data/versions", 0o755); err != nil {
		t.Fatal(err)
	}
	writeHostFile(t, root+"/data/versions/updates.yaml", "version: v1\n")
	if err := conn.Start(ctx, "teleport-update.service"); err != nil {
		t.Fatalf("an update that restarts the agent: %v", err)
	}
	want := "1 --data-dir " + root + "/data update\n"
	if ran, err := os.ReadFile(root + "/ran"); err != nil || string(ran) != want {
		t.Errorf("ran %q, %v; want %q", ran, err, want)
	}

	// A change of what the units say takes effect at once.
	moved := units
	moved.Binary = root + "/elsewhere/updater"
	for _, u := range []Units{moved, units} {
		if err := u.Install(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		if got, err := conn.Unit(t.Context(), "teleport-update.service"); err != nil || got.ExecStart != u.Binary {
			t.Errorf("systemd runs %q, %v; want %q", got.ExecStart, err, u.Binary)
		}
	}

	// Only an open journal makes the recovery run.
	journal := root + "/data/versions/journal.json"
	if err := os.MkdirAll(filepath.Dir(journal), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"", "{}"} {
		os.Remove(root + "/ran")
		if content != "" {
			writeHostFile(t, journal, content)
		}
		if err := conn.Start(ctx, "teleport-update-recover.service"); err != nil {
			t.Fatal(err)
		}
		ran, _ := os.ReadFile(root + "/ran")
		if want := " --data-dir " + root + "/data recover --boot\n"; (string(ran) == want) != (content != "") {
			t.Errorf("with the journal %q, recovery ran %q", content, ran)
		}
	}
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
	w.Window = time.Minute
	if _, err := a.conn.RestartAndWatch(t.Context(), w); !errors.Is(err, ErrHostStopping) {
		t.Fatalf("%v; want ErrHostStopping", err)
	}
	if _, err := a.conn.RestartAndWatch(t.Context(), w); !errors.Is(err, ErrHostStopping) {
		t.Fatalf("a restart while the host stops: %v; want ErrHostStopping", err)
	}
}
