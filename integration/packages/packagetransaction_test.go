//go:build hosts

package packages

import (
	"strings"
	"testing"

	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
)

// packagedScene has the updater from its package, enabled at 1.0.0, and the next
// version of the package in the repository.
func packagedScene(t *testing.T, m manager) *scene {
	t.Helper()
	s := bareScene(t, m.host)
	s.Path = scenes.Packaged
	s.Sound("1.0.0", "1.1.0", "1.2.0")
	old := scenes.PackageOf(t, "teleport-update", scenes.PackageOld, m.format)
	m.repository(s, old)
	m.run(s, "install", "teleport-update")
	s.RunsOn("1.0.0", "--health-window", "8s")
	m.repository(s, old, scenes.PackageOf(t, "teleport-update", scenes.PackageNew, m.format))
	return s
}

func TestThePackageInMidTransaction(t *testing.T) { eachManager(t, packageInMidTransaction) }

func packageInMidTransaction(t *testing.T, m manager) {
	s := packagedScene(t, m)
	begin := func(v string, command ...string) *host.Process {
		s.Wants(v)
		p := s.Background(host.Command{Args: command})
		s.Watched(v)
		return p
	}
	finished := func(v string) {
		t.Helper()
		s.RunsFrom(programs + "/" + v + "/bin/teleport")
		if s.Exists(store + "/journal.json") {
			t.Error("the transaction is not finished")
		}
	}

	// An upgrade leaves a transaction alone. It may take longer than the watch does, so
	// that one pauses; what would stop it would wake it.
	update := begin("1.1.0", scenes.Packaged, "update")
	s.Must("systemctl", "kill", "--signal=STOP", scenes.SwitchUnits)
	m.run(s, "upgrade")
	if !s.Exists(store + "/journal.json") {
		t.Fatal("the transaction was over before the upgrade was: the test shows nothing")
	}
	s.Must("systemctl", "kill", "--signal=CONT", scenes.SwitchUnits)
	if r, err := update.Wait(); err != nil || r.Code != 0 {
		t.Errorf("the update ended with %d, %v:\n%s", r.Code, err, r.Stderr)
	}
	finished("1.1.0")
	s.UpdaterInstalled(scenes.PackageNew)

	// A removal waits for it, and gives up the run that follows it.
	begin("1.2.0", "systemctl", "start", "teleport-update.service")
	m.run(s, "remove", "teleport-update")
	finished("1.2.0")
	if s.Exists(scenes.Packaged) {
		t.Error("the package is still there")
	}
	if got := s.Must("systemctl", "is-system-running"); got != "running" {
		t.Errorf("after the removal the host is %s: %s", got, s.Must("systemctl", "--failed", "--no-legend"))
	}
}

func TestThePackageAfterATransactionThatWasCutOff(t *testing.T) { eachManager(t, packageAfterACut) }

func packageAfterACut(t *testing.T, m manager) {
	s := packagedScene(t, m)

	// Nothing of this package could close that one.
	s.Write(store+"/journal.json", `{"schema": 99}`)
	s.Untouched("a removal that was refused", func() {
		r := m.try(s, "remove", "teleport-update")
		said := r.Stdout + r.Stderr
		if r.Code == 0 || !strings.Contains(said, "a transaction is open") || !strings.Contains(said, "newer updater") {
			t.Errorf("exit code %d of a removal with an open transaction:\n%s%s", r.Code, r.Stdout, r.Stderr)
		}
	})
	s.UpdaterInstalled(scenes.PackageOld)
	if !s.Exists(store + "/journal.json") {
		t.Fatal("the journal is gone")
	}
	s.Must("rm", store+"/journal.json")

	// This one is closed first.
	s.Wants("1.1.0")
	update := s.Background(host.Command{Args: []string{scenes.Packaged, "update"}})
	s.Watched("1.1.0")
	s.KillsMain(scenes.SwitchUnits)
	if _, err := update.Wait(); err != nil {
		t.Fatal(err)
	}
	if !s.Exists(store + "/journal.json") {
		t.Fatal("the transaction left no journal: the test shows nothing")
	}
	m.run(s, "remove", "teleport-update")
	if s.Exists(scenes.Packaged) || s.Exists(store+"/journal.json") {
		t.Error("the package or the journal is still there")
	}
	s.RunsFrom(programs + "/1.1.0/bin/teleport")
	if got := s.Link(linkDir + "/teleport"); got != programs+"/1.1.0/bin/teleport" {
		t.Errorf("the link leads to %s", got)
	}
}

// A host whose updater came without a package gets one.
func TestThePackageReplacesAnUpdaterWithoutOne(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	if !s.Exists("/usr/local/lib/systemd/system/teleport-update.timer") {
		t.Fatal("the updater wrote no units: the test shows nothing")
	}
	s.AptRepository(scenes.PackageOf(t, "teleport-update", scenes.PackageOld, "deb"))
	process := s.AgentProcess()
	s.Apt("install", "teleport-update")
	if now := s.AgentProcess(); now != process {
		t.Errorf("the agent was %s and is %s", process, now)
	}
	s.Must("rm", "-r", "/var/lib/teleport/updater") // nothing runs it any more
	s.UpdaterInstalled(scenes.PackageOld)
	s.Wants("1.1.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("a tick ended with %d", code)
	}
	s.Serves("1.1.0")
}

// Units in another folder than the usual one run a copy of the updater, which is as new as the package.
// A timer that somebody disabled stays so.
func TestAnUpgradeOfThePackageRenewsTheCopyThatUnitsElsewhereRun(t *testing.T) {
	eachManager(t, func(t *testing.T, m manager) {
		s := bareScene(t, m.host)
		s.Path = scenes.Packaged
		s.Sound("1.0.0")
		s.Wants("1.0.0")
		old := scenes.PackageOf(t, "teleport-update", scenes.PackageOld, m.format)
		m.repository(s, old)
		m.run(s, "install", "teleport-update")
		s.Must(s.Path, "--unit-dir", "/etc/systemd/system", "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--health-window", "1s")
		s.Must("systemctl", "enable", "--now", "teleport")
		s.RunsFrom(programs + "/1.0.0/bin/teleport")
		s.elsewhere(scenes.PackageOld, "enabled", "active")

		m.repository(s, old, scenes.PackageOf(t, "teleport-update", scenes.PackageNew, m.format))
		process := s.AgentProcess()
		m.run(s, "upgrade")
		s.elsewhere(scenes.PackageNew, "enabled", "active")
		if code := s.Tick(); code != 0 {
			t.Errorf("a tick ended with %d", code)
		}
		s.Must(s.Path, "verify")

		s.Must("systemctl", "disable", "--now", "teleport-update.timer")
		m.run(s, m.downgrade...)
		m.run(s, "upgrade")
		s.elsewhere(scenes.PackageNew, "disabled", "inactive")
		if now := s.AgentProcess(); now != process {
			t.Errorf("the agent was %s and is %s", process, now)
		}
	})
}

// elsewhere asserts that the units in /etc/systemd/system run a copy of this version, and how the timer is.
func (s *scene) elsewhere(version, enabled, active string) {
	s.T.Helper()
	const program = "/var/lib/teleport/updater/teleport-update"
	for _, unit := range []string{"teleport-update.service", "teleport-update-recover.service"} {
		if file, exec := s.Show(unit, "FragmentPath"), s.Show(unit, "ExecStart"); file != "/etc/systemd/system/"+unit || !strings.Contains(exec, "path="+program+" ") {
			s.T.Errorf("%s, from %s, runs %s", unit, file, exec)
		}
	}
	if got := s.Must(program, "version"); !strings.HasPrefix(got, "teleport-update "+version+" ") {
		s.T.Errorf("the timer runs %q; want version %s", got, version)
	}
	timer := s.Show("teleport-update.timer", "UnitFileState") + " " + s.Show("teleport-update.timer", "ActiveState")
	if timer != enabled+" "+active {
		s.T.Errorf("the timer is %s; want %s %s", timer, enabled, active)
	}
}

// An image is built in a folder, where no systemd runs: the units are enabled all
// the same.
func TestThePackageInAnImage(t *testing.T) {
	t.Parallel()
	h := host.MadeForTest(t, host.Options{Plain: true})
	if err := h.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &scene{&scenes.Scene{Test: h, T: t, Path: scenes.Packaged}}
	s.AptRepository(scenes.PackageOf(t, "teleport-update", scenes.PackageOld, "deb"), scenes.PackageOf(t, "teleport-find", scenes.PackageOld, "deb"))
	s.Apt("install", "teleport-update", "teleport-find")
	for _, link := range []string{"timers.target.wants/teleport-update.timer", "multi-user.target.wants/teleport-update-recover.service"} {
		if got := s.Link("/etc/systemd/system/" + link); !strings.HasSuffix(got, "/lib/systemd/system/"+link[strings.Index(link, "/")+1:]) {
			t.Errorf("%s leads to %q", link, got)
		}
	}
	if s.Exists("/var/lib/teleport") {
		t.Error("the package made /var/lib/teleport")
	}
	// The first boot of an image applies presets, with what its distribution does
	// to units that it does not know.
	for _, others := range []string{"disable", "enable"} {
		s.Write("/usr/lib/systemd/system-preset/99-default.preset", others+" *\n")
		s.Must("systemctl", "--root=/", "preset", "teleport-update.timer", "teleport-update-recover.service", "teleport-find.service")
		timer := s.Exists("/etc/systemd/system/timers.target.wants/teleport-update.timer")
		recovery := s.Exists("/etc/systemd/system/multi-user.target.wants/teleport-update-recover.service")
		server := s.Exists("/etc/systemd/system/multi-user.target.wants/teleport-find.service")
		if !timer || !recovery || server {
			t.Errorf("where the first boot would %s them, the timer is enabled: %v, the recovery: %v, the find server: %v", others, timer, recovery, server)
		}
	}
	s.Apt("purge", "teleport-update")
	for _, name := range []string{"/etc/default/teleport-update", "/etc/needrestart", "/usr/share/teleport-update", "/etc/systemd/system/timers.target.wants/teleport-update.timer"} {
		if s.Exists(name) {
			t.Errorf("%s is left", name)
		}
	}
}
