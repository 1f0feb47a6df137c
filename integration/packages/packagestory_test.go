//go:build hosts

package packages

import (
	"strings"
	"testing"
	"time"

	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// The story of a host from its package, on each Debian: 11 with systemd 247, 12
// with 252, 13 with 257.
func TestTheDebCarriesAHostThroughItsLife(t *testing.T) {
	t.Parallel()
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
	s.Path = "teleport-update"
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Files: []release.File{{Name: "teleport-update", Path: s.Program(host.Updater())}}})
	s.Wants("1.0.0")
	m.repository(s, scenes.PackageOf(t, "teleport-update", scenes.PackageOld, m.format))
	s.Must("mkdir", "-p", "/var/lib/systemd/timers") // systemd makes it for any timer that is persistent
	before := s.Tree(scenes.TheHost...)

	begun := time.Now()
	m.run(s, "install", "teleport-update")
	installed := time.Since(begun)
	s.UpdaterInstalled(scenes.PackageOld)
	s.inert()

	packaged := s.Tree("/usr/lib/systemd/system")
	for _, dir := range []string{"/usr/lib/systemd/system", "/lib/systemd/system"} {
		if s.Try("test", dir, "-ef", "/usr/lib/systemd/system").Code != 0 {
			continue // before Debian 12 they may be two
		}
		s.Fails(1, "is a unit of the package", s.Path, "--unit-dir", dir, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL)
	}
	if changed := packaged.Diff(s.Tree("/usr/lib/systemd/system")); len(changed) > 0 {
		t.Errorf("what was refused has changed %q", changed)
	}

	enabling := time.Now()
	s.Enable("--health-window", "1s")
	s.Must("systemctl", "enable", "--now", "teleport")
	s.Serves("1.0.0")
	t.Logf("MEASURED: with systemd %s, an agent ran %v after `%s install teleport-update`, which took %v of it",
		strings.Fields(s.Must("systemctl", "--version"))[1],
		(installed + time.Since(enabling)).Round(time.Millisecond), m.name, installed.Round(time.Millisecond))
	s.UpdaterInstalled(scenes.PackageOld)
	if m.format == "rpm" {
		if out := s.Must("rpm", "--verify", "teleport-update"); out != "" {
			t.Errorf("rpm --verify says:\n%s", out)
		}
	}

	const config, ownConfig = "/etc/default/teleport-update", "TELEPORT_UPDATE_LOG_FORMAT=json\n"
	s.Write(config, ownConfig)
	s.Wants("1.1.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("a tick ended with %d:\n%s", code, s.Log("teleport-update.service"))
	}
	s.Serves("1.1.0")
	if code := s.Tick(); code != 0 {
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
	s.UpdaterInstalled(scenes.PackageOld)

	m.repository(s, scenes.PackageOf(t, "teleport-update", scenes.PackageOld, m.format), scenes.PackageOf(t, "teleport-update", scenes.PackageNew, m.format))
	s.Must("chmod", "644", config) // as it was when an older package brought it
	s.Untouched("an upgrade of the package", func() { m.run(s, "upgrade") })
	s.UpdaterInstalled(scenes.PackageNew)
	if got := strings.TrimSpace(s.Must("stat", "--format=%a", config)); got != "600" {
		t.Errorf("%s, which may hold a proxy's password, has the mode %s after the upgrade", config, got)
	}
	s.Untouched("a downgrade of the package", func() { m.run(s, m.downgrade...) })
	s.UpdaterInstalled(scenes.PackageOld)
	if got := s.Read(config); got != ownConfig {
		t.Errorf("the administrator's configuration is now:\n%s", got)
	}
	s.Must("teleport-update", "rollback")
	s.Serves("1.0.0")
	s.Must("teleport-update", "verify")

	s.Untouched("the removal of the package", func() { m.run(s, "remove", "teleport-update") })
	if got := s.Show("teleport-update.timer", "LoadState"); got == "loaded" && s.Show("teleport-update.timer", "ActiveState") == "active" {
		t.Errorf("the timer runs without the package")
	}
	s.Must("rm", "-f", config+".rpmsave") // as rpm keeps what was changed
	m.run(s, "install", "teleport-update")
	s.UpdaterInstalled(scenes.PackageNew)
	s.Untouched("the purge of the package", func() {
		if out := m.run(s, m.purge...); !strings.Contains(out, "the agent stays as it is") || !strings.Contains(out, "/var/lib/teleport ") {
			t.Errorf("the removal does not say what it leaves:\n%s", out)
		}
	})
	s.Check(s.Reboot(t.Context()))
	s.RunsFrom(programs + "/1.0.0/bin/teleport")
	if got := s.Must("systemctl", "is-system-running"); got != "running" {
		t.Errorf("after the removal and a reboot the host is %s: %s", got, s.Must("systemctl", "--failed", "--no-legend"))
	}

	m.run(s, "install", "teleport-update")
	s.Must("teleport-update", "uninstall", "--with-agent")
	if out := m.run(s, m.purge...); strings.Contains(out, "the agent stays") {
		t.Errorf("the removal speaks of an agent that is gone:\n%s", out)
	}
	s.Unchanged(before, s.Tree(scenes.TheHost...), append(m.own, "/var/lib/teleport", "/tmp", "/var/tmp")...)
	s.OnlyAgentsDataIsLeft()
}

// inert asserts that nothing happens before the first enable, and that nothing is
// left by it.
func (s *scene) inert() {
	s.T.Helper()
	if code := s.Tick(); code != 0 || s.Asked.Load() > 0 {
		s.T.Errorf("a tick before enable ended with %d and asked find %d times", code, s.Asked.Load())
	}
	if s.Exists("/var/lib/teleport") {
		s.T.Errorf("a package that nobody has enabled made /var/lib/teleport")
	}
}
