// Package scenes has what tests of booted hosts share: a host in its cluster, with
// the updater and an agent that behaves as Teleport's does, the words in which
// tests say what happens on it (RunsOn, Tick, MidWatch) and what must be true of
// it (Serves, Linked, Lost).
//
// Each folder of stories has a type of its own around a Scene, for the words that
// it alone needs.
package scenes

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/internal/version"
)

// Main runs the tests of a package, two hosts at a time, with the programs that scenes need, and ends the process.
func Main(m *testing.M) {
	host.Share(2)
	os.Exit(host.Main(m, host.Updater(), host.Find(), host.Agent()))
}

// Where things are on a host.
const (
	Updater  = "/usr/local/sbin/teleport-update"
	Store    = "/var/lib/teleport/versions"
	Programs = "/opt/teleport-update"
	LinkDir  = "/usr/local/bin"
	UnitFile = "/usr/local/lib/systemd/system/teleport.service"
	// Window is long enough for the stand-in's faults: it crash-loops after two
	// seconds.
	Window = "4s"
	// Patience is how long a test waits for what has to come. It is no measure of
	// anything: a busy machine may need many times as long as a quiet one.
	Patience = 5 * time.Minute
)

// Scene is one host with its cluster, the updater installed and nothing enabled.
type Scene struct {
	*host.Test
	*cluster.Cluster
	T *testing.T
	// Path is the updater that the scene's own steps run.
	Path string
}

// New is a scene on a host of Debian 12. Tests that have one run in parallel.
func New(t *testing.T) *Scene { return On(t, host.Options{}) }

// On is a scene on a host of another kind.
func On(t *testing.T, o host.Options) *Scene {
	t.Helper()
	s := Bare(t, o)
	s.Path = Updater
	s.Put(s.Program(host.Updater()), Updater)
	return s
}

// Bare is a scene without the updater.
func Bare(t *testing.T, o host.Options) *Scene {
	t.Helper()
	t.Parallel()
	h := host.ForTest(t, o)
	s := &Scene{Test: h, Cluster: cluster.New(t, h), T: t}
	s.Write("/etc/teleport.yaml", "teleport:\n  diag_addr: 127.0.0.1:3000\n")
	// Ticks come when the test says so: see Tick.
	s.Write("/etc/systemd/system/teleport-update.timer.d/50-never.conf", "[Timer]\nOnCalendar=\nOnCalendar=2099-01-01\n")
	// A transaction that is killed stays open until the test says so: see RecoversKilled.
	s.Write(noRecovery, "[Service]\nExecStopPost=\n")
	return s
}

const noRecovery = "/etc/systemd/system/teleport-update-switch-.service.d/50-no-recovery.conf"

// RecoversKilled has systemd recover a transaction that is killed, as on any host.
func (s *Scene) RecoversKilled() {
	s.T.Helper()
	s.Must("rm", noRecovery)
	s.Must("systemctl", "daemon-reload")
}

// Program builds a program and returns its path.
func (s *Scene) Program(p host.Program) string {
	s.T.Helper()
	path, err := host.Build(s.T.Context(), p)
	if err != nil {
		s.T.Fatal(err)
	}
	return path
}

// Enable enables updates at the version that find wants, with a short window.
func (s *Scene) Enable(more ...string) {
	s.T.Helper()
	s.Must(append([]string{s.Path, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--health-window", Window}, more...)...)
}

// RunsOn enables v, starts the agent and returns when it serves.
func (s *Scene) RunsOn(v string, more ...string) {
	s.T.Helper()
	s.Wants(v)
	s.Enable(more...)
	s.Must("systemctl", "enable", "--now", "teleport")
	s.Serves(v)
}

// Tick is one run of the timer's unit, and its exit code.
func (s *Scene) Tick() int {
	s.T.Helper()
	s.Try("systemctl", "start", "teleport-update.service")
	code := s.Show("teleport-update.service", "ExecMainStatus")
	s.Try("systemctl", "reset-failed", "teleport-update.service")
	var n int
	fmt.Sscan(code, &n)
	return n
}

// Proven has the timer run until the version counts as proven: the agent did not run when the
// first enable switched to it.
func (s *Scene) Proven() {
	s.T.Helper()
	host.Wait(s.T, Patience, func() error {
		s.Tick()
		if s.Status().Unproven {
			return fmt.Errorf("the version is not proven")
		}
		return nil
	})
}

// Serves asserts that the whole host is on one version: what is linked, what the
// agent's process executes, what status says.
func (s *Scene) Serves(v string) {
	s.T.Helper()
	s.Linked(v)
	want := s.Executable(v)
	host.Wait(s.T, Patience, func() error {
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

// Down asserts that the agent does not run. systemd calls a stop failed where it had to
// kill the agent, as it may after a reload.
func (s *Scene) Down(when string) {
	s.T.Helper()
	if state := s.Show("teleport", "ActiveState"); state != "inactive" && state != "failed" {
		s.T.Errorf("%s the agent is %s; want it down", when, state)
	}
}

// Executable is what /proc shows of an agent of a version.
func (s *Scene) Executable(v string) string {
	s.T.Helper()
	return s.Must("realpath", "--canonicalize-missing", Programs+"/"+v+"/bin/teleport")
}

// LinkedFiles asserts links and unit alone.
func (s *Scene) LinkedFiles(v string) {
	s.T.Helper()
	for _, name := range []string{"teleport", "tsh", "tctl", "tbot"} {
		if got, want := s.Link(LinkDir+"/"+name), Programs+"/"+v+"/bin/"+name; got != want {
			s.T.Errorf("link %s leads to %q; want %q", name, got, want)
		}
	}
	if got, err := s.ReadFile(UnitFile); err != nil || string(got) != s.Read(Programs+"/"+v+"/etc/systemd/teleport.service") {
		s.T.Errorf("the unit is not the one of version %s (%v)", v, err)
	}
}

// Linked asserts links, unit and status.
func (s *Scene) Linked(v string) {
	s.T.Helper()
	s.LinkedFiles(v)
	if r := s.Status(); r.VersionInstalled == nil || *r.VersionInstalled != v {
		s.T.Errorf("status says that %s is installed; want %s", Text(r.VersionInstalled), v)
	}
	if s.Exists(Store + "/journal.json") {
		s.T.Errorf("a journal is left:\n%s", s.Read(Store+"/journal.json"))
	}
}

// Fails runs a command that must end with a code and say something.
func (s *Scene) Fails(code int, says string, args ...string) string {
	s.T.Helper()
	r := s.Try(args...)
	if r.Code != code || !strings.Contains(r.Stderr, says) {
		s.T.Errorf("%s: exit code %d, want %d, and %q in:\n%s%s", strings.Join(args, " "), r.Code, code, says, r.Stdout, r.Stderr)
	}
	return r.Stderr
}

// PID is the agent's main process.
func (s *Scene) PID() string {
	s.T.Helper()
	return s.Show("teleport", "MainPID")
}

// Check fails the test with an error.
func (s *Scene) Check(err error) {
	s.T.Helper()
	if err != nil {
		s.T.Fatal(err)
	}
}

// Versions lists the folders of the store that are versions.
func (s *Scene) Versions() []string {
	s.T.Helper()
	names, err := s.Names(Store)
	if err != nil {
		s.T.Fatal(err)
	}
	var found []string
	for _, name := range names {
		v, _, _ := strings.Cut(name, "_")
		if _, err := version.Parse(v); err == nil {
			found = append(found, name)
		}
	}
	return found
}
