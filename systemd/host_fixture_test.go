//go:build hosts

package systemd

import (
	"fmt"
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

// hostWindow is short because nothing in these tests takes long.
const hostWindow = 1500 * time.Millisecond

// watch is one of version 2.
func (a *hostAgent) watch() Watch {
	return Watch{Unit: a.unit, Dir: a.root + "/versions/2", Window: hostWindow, ReloadLimit: hostWindow}
}

// meanwhile does something as soon as the new version runs. The channel is
// closed when it is done.
func (a *hostAgent) meanwhile(systemctl ...string) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for began := time.Now(); ; {
			data, _ := os.ReadFile(a.pidFile())
			if pid, _ := strconv.Atoi(strings.TrimSpace(string(data))); a.executes(uint32(pid)) == "versions/2/bin/agent" {
				break
			}
			if time.Since(began) > 30*time.Second {
				a.t.Errorf("systemctl %q: the new version does not run", systemctl)
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(300 * time.Millisecond)
		if out, err := exec.Command("systemctl", systemctl...).CombinedOutput(); err != nil {
			a.t.Errorf("systemctl %q: %v: %s", systemctl, err, out)
		}
	}()
	return done
}
