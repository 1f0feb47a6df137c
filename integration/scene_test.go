//go:build hosts

package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"teleport-update/installer"
	"teleport-update/integration/host"
)

const (
	updater  = "/usr/local/sbin/teleport-update"
	store    = "/var/lib/teleport/versions"
	linkDir  = "/usr/local/bin"
	unitFile = "/usr/local/lib/systemd/system/teleport.service"
	// window is long enough for the stand-in's faults: it crash-loops after two
	// seconds.
	window = "4s"
	// patience is how long a test waits for what has to come. It is no measure of
	// anything: a busy machine may need many times as long as a quiet one.
	patience = 2 * time.Minute
)

// scene is one host with its cluster, the updater installed and nothing enabled.
type scene struct {
	*host.Test
	*cluster
	t *testing.T
	// path of the updater that the scene's own steps run
	path string
}

func newScene(t *testing.T) *scene { return sceneOn(t, host.Options{}) }

func sceneOn(t *testing.T, o host.Options) *scene {
	t.Helper()
	s := bareScene(t, o)
	s.path = updater
	s.Put(s.program(host.Updater()), updater)
	return s
}

// bareScene is a scene without the updater.
func bareScene(t *testing.T, o host.Options) *scene {
	t.Helper()
	t.Parallel()
	h := host.ForTest(t, o)
	s := &scene{Test: h, cluster: newCluster(t, h), t: t}
	s.Write("/etc/teleport.yaml", "teleport:\n  diag_addr: 127.0.0.1:3000\n")
	// Ticks come when the test says so: see tick.
	s.Write("/etc/systemd/system/teleport-update.timer.d/50-never.conf", "[Timer]\nOnCalendar=\nOnCalendar=2099-01-01\n")
	return s
}

func (s *scene) program(p host.Program) string {
	s.t.Helper()
	path, err := host.Build(s.t.Context(), p)
	if err != nil {
		s.t.Fatal(err)
	}
	return path
}

// enable enables updates at the version that find wants, with a short window.
func (s *scene) enable(more ...string) {
	s.t.Helper()
	s.Must(append([]string{s.path, "enable", "--proxy", proxyAddress, "--template", templateURL, "--health-window", window}, more...)...)
}

// running enables v, starts the agent and returns when it serves.
func (s *scene) running(v string, more ...string) {
	s.t.Helper()
	s.wants(v)
	s.enable(more...)
	s.Must("systemctl", "enable", "--now", "teleport")
	s.serves(v)
}

// tick is one run of the timer's unit, and its exit code.
func (s *scene) tick() int {
	s.t.Helper()
	s.Try("systemctl", "start", "teleport-update.service")
	code := s.Show("teleport-update.service", "ExecMainStatus")
	s.Try("systemctl", "reset-failed", "teleport-update.service")
	var n int
	fmt.Sscan(code, &n)
	return n
}

// serves asserts that the whole host is on one version: what is linked, what the
// agent's process executes, what status says.
func (s *scene) serves(v string) {
	s.t.Helper()
	s.linked(v)
	want := s.executable(v)
	host.Wait(s.t, patience, func() error {
		// The PID file names the process that serves. systemd's main process may
		// still be the one before, as long as that has sessions to drain.
		exe := s.Try("sh", "-c", "readlink /proc/$(cat /run/teleport.pid)/exe")
		if got := strings.TrimSpace(exe.Stdout); got != want {
			return fmt.Errorf("the agent executes %q; want %q", got, want)
		}
		if got := s.Show("teleport", "ActiveState"); got != "active" {
			return fmt.Errorf("the agent's unit is %s", got)
		}
		return nil
	})
}

// executable is what /proc shows of an agent of a version.
func (s *scene) executable(v string) string {
	s.t.Helper()
	return s.Must("realpath", "--canonicalize-missing", store+"/"+v+"/bin/teleport")
}

// linked asserts links, unit and status.
func (s *scene) linked(v string) {
	s.t.Helper()
	for _, name := range []string{"teleport", "tsh", "tctl", "tbot"} {
		if got, want := s.Link(linkDir+"/"+name), store+"/"+v+"/bin/"+name; got != want {
			s.t.Errorf("link %s leads to %q; want %q", name, got, want)
		}
	}
	if got, want := s.Read(unitFile), s.Read(store+"/"+v+"/etc/systemd/teleport.service"); got != want {
		s.t.Errorf("the unit is not the one of version %s", v)
	}
	if r := s.status(); r.VersionInstalled == nil || *r.VersionInstalled != v {
		s.t.Errorf("status says that %s is installed; want %s", text(r.VersionInstalled), v)
	}
	if s.Exists(store + "/journal.json") {
		s.t.Errorf("a journal is left:\n%s", s.Read(store+"/journal.json"))
	}
}

// status is what `teleport-update status` says.
func (s *scene) status() installer.Report {
	s.t.Helper()
	var r installer.Report
	out := s.Must(s.path, "status")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		s.t.Fatalf("status printed %q: %v", out, err)
	}
	return r
}

// fails runs a command that must end with a code and say something.
func (s *scene) fails(code int, says string, args ...string) string {
	s.t.Helper()
	r := s.Try(args...)
	if r.Code != code || !strings.Contains(r.Stderr, says) {
		s.t.Errorf("%s: exit code %d, want %d, and %q in:\n%s%s", strings.Join(args, " "), r.Code, code, says, r.Stdout, r.Stderr)
	}
	return r.Stderr
}

// pid is the agent's main process.
func (s *scene) pid() string {
	s.t.Helper()
	return s.Show("teleport", "MainPID")
}

func text(p *string) string {
	if p == nil {
		return "nothing"
	}
	return *p
}
