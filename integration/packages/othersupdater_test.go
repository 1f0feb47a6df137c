//go:build hosts

package packages

import (
	"fmt"
	"testing"

	"teleport-update/integration/cluster"
	"teleport-update/integration/scenes"
)

// The package comes to a host of Teleport's own updater and goes again, before a migration,
// after one, and after one that was taken back: nobody is asked anything, and nothing of
// the other updater is stopped, disabled or changed.
func TestThePackageComesAndGoesBesideTeleportsOwnUpdater(t *testing.T) {
	eachManager(t, func(t *testing.T, m manager) {
		s := bareScene(t, m.host)
		s.Path = "/usr/bin/teleport-updater"
		s.Sound("1.0.0")
		s.Wants("1.0.0")
		m.repository(s, scenes.PackageOf(t, "teleport-update", scenes.PackageOld, m.format))
		s.InstallOwnUpdater(scenes.OldVersion)
		s.Must("mkdir", "-p", "/etc/systemd/system/multi-user.target.wants")

		begun := s.othersTimer()
		before := s.Tree(others...)
		s.Untouched("the package's installation", func() { m.run(s, "install", "teleport-update") })
		s.Untouched("the package's removal", func() { m.run(s, "remove", "teleport-update") })
		s.Untouched("the package's second installation", func() { m.run(s, "install", "teleport-update") })
		s.Untouched("the package's purge", func() { m.run(s, m.purge...) })
		s.Unchanged(before, s.Tree(others...), "/etc/needrestart/conf.d/teleport-updater.conf")
		if now := s.othersTimer(); now != begun {
			t.Errorf("the other updater's timer was %s and is %s", begun, now)
		}
		s.othersWork()

		m.run(s, "install", "teleport-update")
		s.Must(s.Path, "enable", "--replace-updater", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--health-window", "1s")
		s.Untouched("the package's purge after a migration", func() { m.run(s, m.purge...) })
		s.Check(s.Reboot(t.Context()))
		s.RunsFrom(programs + "/1.0.0/bin/teleport")
	})
}

// others is where the files of Teleport's own updater are, and of the agent that it keeps.
var others = []string{scenes.OthersDir, "/etc/needrestart", "/etc/systemd/system", "/lib/systemd/system/teleport.service"}

func (s *scene) othersTimer() string {
	s.T.Helper()
	return fmt.Sprint(s.Show("teleport-update.timer", "ActiveState"), " since ", s.Show("teleport-update.timer", "ActiveEnterTimestampMonotonic"), " from ",
		s.Show("teleport-update.timer", "FragmentPath"), " wanted by ", s.Link("/etc/systemd/system/timers.target.wants/teleport-update.timer"))
}

// othersWork asserts that all of the other updater is there, that its timer is on, and that
// a run of it acts.
func (s *scene) othersWork() {
	s.T.Helper()
	for _, file := range scenes.OthersFiles {
		if s.Try("test", "-e", file).Code != 0 {
			s.T.Errorf("%s is not there", file)
		}
	}
	if got := s.Show("teleport-update.timer", "FragmentPath") + " " + s.Show("teleport-update.timer", "ActiveState"); got != scenes.OthersTimer+" active" {
		s.T.Errorf("the other updater's timer is %s", got)
	}
	s.Must("rm", "-f", scenes.OthersActed)
	s.Must("systemctl", "start", "teleport-update.service")
	if !s.Exists(scenes.OthersActed) {
		s.T.Error("the other updater does nothing")
	}
	s.RunsFrom(scenes.OthersDir + "/versions/" + scenes.OldVersion + "/bin/teleport")
}
