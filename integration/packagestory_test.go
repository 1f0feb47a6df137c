//go:build hosts

package integration

import (
	"strings"
	"testing"
	"time"

	"teleport-update/integration/host"
	"teleport-update/integration/release"
)

// The story of a host from its package, on each Debian: 11 with systemd 247, 12
// with 252, 13 with 257.
func TestTheDebCarriesAHostThroughItsLife(t *testing.T) {
	for _, suite := range []string{"bullseye", "bookworm", "trixie"} {
		t.Run(suite, func(t *testing.T) {
			m := usingApt
			m.host.Suite = suite
			packageCarriesAHost(t, m)
		})
	}
}

func TestTheRpmCarriesAHostThroughItsLife(t *testing.T) { packageCarriesAHost(t, usingDnf) }

func packageCarriesAHost(t *testing.T, m manager) {
	s := bareScene(t, m.host)
	s.path = "teleport-update"
	s.sound("1.0.0")
	s.release(release.Spec{Version: "1.1.0", Files: []release.File{{Name: "teleport-update", Path: s.program(host.Updater())}}})
	s.wants("1.0.0")
	m.repository(s, packageOf(t, "teleport-update", packageOld, m.format))
	s.Must("mkdir", "-p", "/var/lib/systemd/timers") // systemd makes it for any timer that is persistent
	before := s.Tree(theHost...)

	begun := time.Now()
	m.run(s, "install", "teleport-update")
	installed := time.Since(begun)
	s.updaterInstalled(packageOld)
	s.inert()

	enabling := time.Now()
	s.enable("--health-window", "1s")
	s.Must("systemctl", "enable", "--now", "teleport")
	s.serves("1.0.0")
	t.Logf("MEASURED: with systemd %s, an agent ran %v after `%s install teleport-update`, which took %v of it",
		strings.Fields(s.Must("systemctl", "--version"))[1],
		(installed + time.Since(enabling)).Round(time.Millisecond), m.name, installed.Round(time.Millisecond))
	s.updaterInstalled(packageOld)
	if m.format == "rpm" {
		if out := s.Must("rpm", "--verify", "teleport-update"); out != "" {
			t.Errorf("rpm --verify says:\n%s", out)
		}
	}

	const config, ownConfig = "/etc/default/teleport-update", "TELEPORT_UPDATE_LOG_FORMAT=json\n"
	s.Write(config, ownConfig)
	s.wants("1.1.0")
	if code := s.tick(); code != 0 {
		t.Errorf("a tick ended with %d:\n%s", code, s.Log("teleport-update.service"))
	}
	s.serves("1.1.0")
	if code := s.tick(); code != 0 {
		t.Errorf("a second tick ended with %d", code)
	}
	if log := s.Log("teleport-update.service"); !strings.Contains(log, `"msg":`) {
		t.Errorf("the timer's runs do not read %s:\n%s", config, log)
	}
	// A person gets the updater that came with the version, the timer runs the
	// package's.
	if got := s.Must("sh", "-c", "command -v teleport-update"); got != linkDir+"/teleport-update" {
		t.Errorf("a person runs %s", got)
	}
	s.updaterInstalled(packageOld)

	m.repository(s, packageOf(t, "teleport-update", packageOld, m.format), packageOf(t, "teleport-update", packageNew, m.format))
	s.untouched("an upgrade of the package", func() { m.run(s, "upgrade") })
	s.updaterInstalled(packageNew)
	s.untouched("a downgrade of the package", func() { m.run(s, m.downgrade...) })
	s.updaterInstalled(packageOld)
	if got := s.Read(config); got != ownConfig {
		t.Errorf("the administrator's configuration is now:\n%s", got)
	}
	s.Must("teleport-update", "rollback")
	s.serves("1.0.0")
	s.Must("teleport-update", "verify")

	s.untouched("the removal of the package", func() { m.run(s, "remove", "teleport-update") })
	if got := s.Show("teleport-update.timer", "LoadState"); got == "loaded" && s.Show("teleport-update.timer", "ActiveState") == "active" {
		t.Errorf("the timer runs without the package")
	}
	s.Must("rm", "-f", config+".rpmsave") // as rpm keeps what was changed
	m.run(s, "install", "teleport-update")
	s.updaterInstalled(packageNew)
	s.untouched("the purge of the package", func() {
		if out := m.run(s, m.purge...); !strings.Contains(out, "the agent stays as it is") || !strings.Contains(out, "/var/lib/teleport ") {
			t.Errorf("the removal does not say what it leaves:\n%s", out)
		}
	})
	s.check(s.Reboot(t.Context()))
	s.runsFrom(store + "/1.0.0/bin/teleport")
	if got := s.Must("systemctl", "is-system-running"); got != "running" {
		t.Errorf("after the removal and a reboot the host is %s: %s", got, s.Must("systemctl", "--failed", "--no-legend"))
	}

	m.run(s, "install", "teleport-update")
	s.Must("teleport-update", "uninstall")
	if out := m.run(s, m.purge...); strings.Contains(out, "the agent stays") {
		t.Errorf("the removal speaks of an agent that is gone:\n%s", out)
	}
	s.Unchanged(before, s.Tree(theHost...), append(m.own, "/var/lib/teleport", "/tmp", "/var/tmp")...)
	s.onlyAgentsDataIsLeft()
}

// inert asserts that nothing happens before the first enable, and that nothing is
// left by it.
func (s *scene) inert() {
	s.t.Helper()
	if code := s.tick(); code != 0 || s.asked.Load() > 0 {
		s.t.Errorf("a tick before enable ended with %d and asked find %d times", code, s.asked.Load())
	}
	if s.Exists("/var/lib/teleport") {
		s.t.Errorf("a package that nobody has enabled made /var/lib/teleport")
	}
}
