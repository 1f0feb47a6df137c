//go:build hosts

package health

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/health/settings"
	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

// hostAgent is an agent's unit of which version 1 runs, linked, and version 2 is
// there.
type hostAgent struct {
	t          *testing.T
	conn       *systemd.Conn
	root, unit string
	link       string
}

// dialHost connects to the systemd of a host that these tests may do with what
// they like.
func dialHost(t *testing.T) *systemd.Conn {
	t.Helper()
	if os.Getenv("DISPOSABLE_HOST") == "" {
		t.Skip("DISPOSABLE_HOST is not set: this would change the units of the host it runs on")
	}
	conn, err := systemd.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
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
	conn := dialHost(t)
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
	text := "[Unit]\nStartLimitIntervalSec=" + u.limit + "\n" + fmt.Sprintf("[Service]\nTimeoutStopSec=10s\nType=%s\nExecStart=%s %s\n%s\n", u.kind, a.link, a.pidFile(), u.service)
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

func (a *hostAgent) start() systemd.Unit {
	a.t.Helper()
	if err := a.conn.Start(a.t.Context(), a.unit); err != nil {
		a.t.Fatal(err)
	}
	// The job is done before the agent has written its PID file.
	for began := time.Now(); ; {
		if data, err := os.ReadFile(a.pidFile()); err == nil && len(data) > 0 {
			return a.state()
		}
		if time.Since(began) > patience {
			a.t.Fatal("the agent does not start")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (a *hostAgent) state() systemd.Unit {
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

const (
	// hostWindow is for what is to hold, and for limits that have to be waited
	// for.
	hostWindow = 1500 * time.Millisecond
	// patience is for what comes sooner or later: on a busy host it may be later.
	patience = time.Minute

	versionTwo = "versions/2/bin/agent"
)

// watch is one of version 2.
func (a *hostAgent) watch() Watch {
	return Watch{Unit: a.unit, Dir: a.root + "/versions/2", Settings: settings.Settings{Window: of(hostWindow)}, ReloadLimit: patience}
}

// inPIDFile is the process that the PID file names, 0 if there is none.
func (a *hostAgent) inPIDFile() uint32 { return uint32(procfs.PIDFile(a.pidFile())) }

// meanwhile does something as soon as a process of the new version runs that does
// not do so yet. The channel brings when that was done.
func (a *hostAgent) meanwhile(systemctl ...string) <-chan time.Time {
	before := a.inPIDFile()
	return a.soon(func() bool {
		pid := a.inPIDFile()
		return pid != before && a.executes(pid) == versionTwo
	}, func() {
		if out, err := exec.Command("systemctl", systemctl...).CombinedOutput(); err != nil {
			a.t.Errorf("systemctl %q: %v: %s", systemctl, err, out)
		}
	})
}

// soon does something a moment after a state has come: the watch has seen it by
// then.
func (a *hostAgent) soon(state func() bool, do func()) <-chan time.Time {
	done := make(chan time.Time, 1)
	go func() {
		defer close(done)
		for began := time.Now(); !state(); time.Sleep(20 * time.Millisecond) {
			if a.t.Context().Err() != nil {
				return // the test has ended without it, and says why
			}
			if time.Since(began) > patience {
				a.t.Error("the new version does not come as far as this test needs it")
				return
			}
		}
		time.Sleep(300 * time.Millisecond)
		do()
		done <- time.Now()
	}()
	return done
}

// The states in which version 2 is told to die.
var dies = map[string]func(*hostAgent) bool{
	"once it is there": func(a *hostAgent) bool {
		u, err := a.conn.Unit(a.t.Context(), a.unit)
		group := groupOf(procfs.Host(), u.ControlGroup, a.root+"/versions/2")
		return err == nil && slices.ContainsFunc(group, func(p process) bool { return p.inside })
	},
	"once the PID file names it": func(a *hostAgent) bool { return a.executes(a.inPIDFile()) == versionTwo },
	"once it is the main process": func(a *hostAgent) bool {
		u, err := a.conn.Unit(a.t.Context(), a.unit)
		return err == nil && a.executes(u.MainPID) == versionTwo
	},
}
