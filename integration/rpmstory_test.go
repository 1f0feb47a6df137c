//go:build hosts

package integration

import (
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/integration/host"
)

// dnfHost is a Debian with dnf, and with a database of rpm's that knows nothing
// of dpkg's.
var dnfHost = host.Options{Packages: []string{"createrepo-c", "dnf", "rpm"}}

// dnfRepository makes these packages what dnf can install, and nothing else.
func (s *scene) dnfRepository(rpms ...string) {
	s.t.Helper()
	for _, rpm := range rpms {
		s.check(s.CopyIn(rpm, path.Join(dnfFolder, filepath.Base(rpm)), 0o644))
	}
	s.Must("createrepo_c", "--quiet", dnfFolder)
	s.Write("/etc/yum.repos.d/test.repo", "[test]\nname=test\nbaseurl=file://"+dnfFolder+"\ngpgcheck=0\nmetadata_expire=0\n")
}

// dnf runs dnf as an operator does, and returns what it printed.
func (s *scene) dnf(args ...string) string {
	s.t.Helper()
	r := s.tryDnf(args...)
	if r.Code != 0 {
		s.t.Fatalf("dnf %s: exit code %d\n%s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout + r.Stderr
}

func (s *scene) tryDnf(args ...string) host.Result {
	s.t.Helper()
	return s.Try(append([]string{"dnf", "--assumeyes", "--releasever=1"}, args...)...)
}

func TestTheRpmCarriesAHostThroughItsLife(t *testing.T) {
	s := bareScene(t, dnfHost)
	s.path = "teleport-update"
	s.sound("1.0.0", "1.1.0")
	s.wants("1.0.0")
	s.dnfRepository(packageOf(t, "teleport-update", packageOld, "rpm"))
	s.Must("mkdir", "-p", "/var/lib/systemd/timers")
	before := s.Tree(theHost...)

	begun := time.Now()
	s.dnf("install", "teleport-update")
	installed := time.Since(begun)
	s.updaterInstalled(packageOld)
	s.inert()
	enabling := time.Now()
	s.enable("--health-window", "1s")
	s.Must("systemctl", "enable", "--now", "teleport")
	s.serves("1.0.0")
	t.Logf("MEASURED: an agent ran %v after `dnf install teleport-update`, which took %v of it",
		(installed + time.Since(enabling)).Round(time.Millisecond), installed.Round(time.Millisecond))
	s.updaterInstalled(packageOld)
	if out := s.Must("rpm", "--verify", "teleport-update"); out != "" {
		t.Errorf("rpm --verify says:\n%s", out)
	}

	s.wants("1.1.0")
	if code := s.tick(); code != 0 {
		t.Errorf("a tick ended with %d:\n%s", code, s.Log("teleport-update.service"))
	}
	s.serves("1.1.0")

	s.dnfRepository(packageOf(t, "teleport-update", packageNew, "rpm"))
	s.untouched("an upgrade of the package", func() { s.dnf("upgrade") })
	s.updaterInstalled(packageNew)
	s.untouched("a downgrade of the package", func() { s.dnf("downgrade", "teleport-update") })
	s.updaterInstalled(packageOld)
	s.Must("teleport-update", "rollback")
	s.serves("1.0.0")

	if out := s.dnf("remove", "teleport-update"); !strings.Contains(out, "the agent stays as it is") {
		t.Errorf("the removal does not say what it leaves:\n%s", out)
	}
	if s.Exists(packaged) {
		t.Error("the package is still there")
	}
	s.check(s.Reboot(t.Context()))
	s.runsFrom(store + "/1.0.0/bin/teleport")
	if got := s.Must("systemctl", "is-system-running"); got != "running" {
		t.Errorf("after the removal and a reboot the host is %s: %s", got, s.Must("systemctl", "--failed", "--no-legend"))
	}

	s.dnf("install", "teleport-update")
	s.updaterInstalled(packageNew)
	s.Must("teleport-update", "uninstall")
	if out := s.dnf("remove", "teleport-update"); strings.Contains(out, "the agent stays") {
		t.Errorf("the removal speaks of an agent that is gone:\n%s", out)
	}
	s.Unchanged(before, s.Tree(theHost...), "/var/lib/teleport", "/tmp", "/var/tmp", "/root/.rpmdb")
	s.onlyAgentsDataIsLeft()
}
