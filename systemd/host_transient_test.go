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

// The tests behind the tag "hosts" need a host that systemd has booted, with
// nothing on it that matters, and root:
//
//	CGO_ENABLED=0 go test -c -tags hosts -o systemd.test ./systemd
//
// and on the host, most of them waiting and not working:
//
//	DISPOSABLE_HOST=1 systemd.test -test.run Host -test.parallel 8

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "follower" {
		os.Exit(follower())
	}
	os.Exit(m.Run())
}

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
		if time.Since(began) > patience {
			t.Fatal("the program died with its caller")
		}
	}
	if state, _ := os.ReadFile(dir + "/state"); string(state) != "inactive\n" {
		t.Errorf("the caller was %q: this test shows nothing", state)
	}
	for began := time.Now(); !strings.Contains(transients(t), "exited"); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > patience {
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
	ctx, cancel := context.WithCancelCause(t.Context())
	patienceEnded := errors.New("patience has ended")
	const name = transientPrefix + "given-up.service"
	go func() {
		awaitRunning(t, conn, name)
		cancel(patienceEnded)
	}()
	program, end := endedBy(t, 5)
	_, err := conn.RunTransient(ctx, Transient{Name: name, Argv: program})
	if !errors.Is(err, patienceEnded) {
		t.Errorf("%v; want why the context ended", err)
	}
	if u, err := conn.Unit(t.Context(), name); err != nil || !u.Running() {
		t.Errorf("%+v, %v; want a program that goes on", u, err)
	}
	end()
	// Whoever follows again gets the exit code.
	if code, err := conn.follow(t.Context(), name); code != 5 || err != nil {
		t.Errorf("%d, %v; want 5", code, err)
	}
}

// An interrupt may come at any moment of the start. Whoever reads the error has to
// know whether the program goes on, and that it was an interrupt.
func TestHostTransientInterruptedAtAnyMoment(t *testing.T) {
	conn := dialHost(t)
	interrupt := errors.New("interrupt signal received")
	goingOn, notBegun := 0, 0
	// Further where a start takes longer.
	for after := time.Duration(0); after < 20*time.Millisecond || goingOn == 0 && after < patience; after += max(250*time.Microsecond, (after-20*time.Millisecond)/10) {
		ctx, cancel := context.WithCancelCause(t.Context())
		name := fmt.Sprintf("%sinterrupted-%dus.service", transientPrefix, after.Microseconds())
		time.AfterFunc(after, func() { cancel(interrupt) })
		_, err := conn.RunTransient(ctx, Transient{Name: name, Argv: sh("sleep 600")})
		_, started := errors.AsType[*GoesOnError](err)
		if !errors.Is(err, interrupt) || errors.Is(err, context.Canceled) {
			t.Errorf("after %v: %v; want the cause", after, err)
		}
		u, uerr := conn.Unit(t.Context(), name)
		if uerr != nil || (u.LoadState == "loaded") != started {
			t.Errorf("after %v: the error is %v, the unit %+v, %v", after, err, u, uerr)
		}
		if started {
			goingOn++
		} else {
			notBegun++
		}
		conn.removeUnit(t.Context(), name)
	}
	t.Logf("%d went on, %d had not begun", goingOn, notBegun)
	if goingOn == 0 {
		t.Error("none was interrupted after its start")
	}
}

func TestHostTransientThroughAReexecution(t *testing.T) {
	conn := dialHost(t)
	const name = transientPrefix + "reexecution.service"
	program, end := endedBy(t, 6)
	go func() {
		awaitRunning(t, conn, name)
		if out, err := exec.Command("systemctl", "daemon-reexec").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		end()
	}()
	code, err := conn.RunTransient(t.Context(), Transient{Name: name, Argv: program})
	if code != 6 || err != nil {
		t.Errorf("%d, %v; want 6", code, err)
	}
}

// endedBy is a program that exits with this code when end is called.
func endedBy(t *testing.T, code int) (program []string, end func()) {
	file := filepath.Join(t.TempDir(), "end")
	return sh(fmt.Sprintf("while [ ! -e '%s' ]; do sleep 0.02; done; exit %d", file, code)), func() {
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Error(err)
		}
	}
}

func awaitRunning(t *testing.T, conn *Conn, unit string) {
	for began := time.Now(); t.Context().Err() == nil; time.Sleep(5 * time.Millisecond) {
		if u, err := conn.Unit(t.Context(), unit); err == nil && u.Running() {
			return
		}
		if time.Since(began) > patience {
			t.Errorf("%s does not run", unit)
			return
		}
	}
}
