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
			s := bareScene(t, host.Options{Suite: suite})
			s.path = "teleport-update"
			s.sound("1.0.0")
			s.release(release.Spec{Version: "1.1.0", Files: []release.File{{Name: "teleport-update", Path: s.program(host.Updater())}}})
			s.wants("1.0.0")
			s.aptRepository(packageOf(t, "teleport-update", packageOld, "deb"))
			s.Must("mkdir", "-p", "/var/lib/systemd/timers") // systemd makes it for any timer that is persistent
			before := s.Tree(theHost...)

			begun := time.Now()
			s.apt("install", "teleport-update")
			installed := time.Since(begun)
			s.updaterInstalled(packageOld)
			s.inert()

			enabling := time.Now()
			s.enable("--health-window", "1s")
			s.Must("systemctl", "enable", "--now", "teleport")
			s.serves("1.0.0")
			t.Logf("MEASURED: on %s, with systemd %s, an agent ran %v after `apt-get install teleport-update`, which took %v of it",
				suite, strings.Fields(s.Must("systemctl", "--version"))[1],
				(installed + time.Since(enabling)).Round(time.Millisecond), installed.Round(time.Millisecond))
			s.updaterInstalled(packageOld)

			const ownConfig = "TELEPORT_UPDATE_LOG_FORMAT=json\n"
			s.Write("/etc/default/teleport-update", ownConfig)
			s.wants("1.1.0")
			if code := s.tick(); code != 0 {
				t.Errorf("a tick ended with %d:\n%s", code, s.Log("teleport-update.service"))
			}
			s.serves("1.1.0")
			if code := s.tick(); code != 0 {
				t.Errorf("a second tick ended with %d", code)
			}
			if log := s.Log("teleport-update.service"); !strings.Contains(log, `"msg":`) {
				t.Errorf("the timer's runs do not read /etc/default/teleport-update:\n%s", log)
			}
			// A person gets the updater that came with the version, the timer runs the
			// package's.
			if got := s.Must("sh", "-c", "command -v teleport-update"); got != linkDir+"/teleport-update" {
				t.Errorf("a person runs %s", got)
			}
			s.updaterInstalled(packageOld)

			s.aptRepository(packageOf(t, "teleport-update", packageOld, "deb"), packageOf(t, "teleport-update", packageNew, "deb"))
			s.untouched("an upgrade of the package", func() { s.apt("upgrade") })
			s.updaterInstalled(packageNew)
			s.untouched("a downgrade of the package", func() { s.apt("install", "--allow-downgrades", "teleport-update="+packageOld) })
			s.updaterInstalled(packageOld)

			if got := s.Read("/etc/default/teleport-update"); got != ownConfig {
				t.Errorf("the administrator's configuration is now:\n%s", got)
			}
			s.Must("teleport-update", "rollback")
			s.serves("1.0.0")
			s.Must("teleport-update", "verify")

			s.untouched("the removal of the package", func() { s.apt("remove", "teleport-update") })
			if got := s.Show("teleport-update.timer", "LoadState"); got == "loaded" && s.Show("teleport-update.timer", "ActiveState") == "active" {
				t.Errorf("the timer runs without the package")
			}
			s.apt("install", "teleport-update")
			s.updaterInstalled(packageNew)
			s.untouched("the purge of the package", func() {
				if out := s.apt("purge", "teleport-update"); !strings.Contains(out, "the agent stays as it is") || !strings.Contains(out, "/var/lib/teleport ") {
					t.Errorf("purge does not say what it leaves:\n%s", out)
				}
			})
			s.check(s.Reboot(t.Context()))
			s.runsFrom(store + "/1.0.0/bin/teleport")
			if got := s.Must("systemctl", "is-system-running"); got != "running" {
				t.Errorf("after the purge and a reboot the host is %s: %s", got, s.Must("systemctl", "--failed", "--no-legend"))
			}

			s.apt("install", "teleport-update")
			s.Must("teleport-update", "uninstall")
			if out := s.apt("purge", "teleport-update"); strings.Contains(out, "the agent stays") {
				t.Errorf("purge speaks of an agent that is gone:\n%s", out)
			}
			s.Unchanged(before, s.Tree(theHost...), "/var/lib/teleport", "/etc/apt", "/tmp", "/var/tmp")
			s.onlyAgentsDataIsLeft()
		})
	}
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
