//go:build hosts

package integration

import (
	"strings"
	"testing"

	"teleport-update/integration/host"
)

// packagedScene has the updater from its package, enabled at 1.0.0, and the next
// version of the package in the repository.
func packagedScene(t *testing.T, m manager) *scene {
	t.Helper()
	s := bareScene(t, m.host)
	s.path = packaged
	s.sound("1.0.0", "1.1.0", "1.2.0")
	old := packageOf(t, "teleport-update", packageOld, m.format)
	m.repository(s, old)
	m.run(s, "install", "teleport-update")
	s.running("1.0.0", "--health-window", "8s")
	m.repository(s, old, packageOf(t, "teleport-update", packageNew, m.format))
	return s
}

func TestThePackageInMidSwitch(t *testing.T) { eachManager(t, packageInMidSwitch) }

func packageInMidSwitch(t *testing.T, m manager) {
	s := packagedScene(t, m)
	begin := func(v string, command ...string) *host.Process {
		s.wants(v)
		p := s.Background(host.Command{Args: command})
		s.watched(v)
		return p
	}
	holds := func(v string) {
		t.Helper()
		s.runsFrom(store + "/" + v + "/bin/teleport")
		if s.Exists(store + "/journal.json") {
			t.Error("the switch is not finished")
		}
	}

	// An upgrade leaves a switch alone. It may take longer than the watch does, so
	// that one pauses; what would stop it would wake it.
	update := begin("1.1.0", packaged, "update")
	s.Must("systemctl", "kill", "--signal=STOP", switchUnits)
	m.run(s, "upgrade")
	if !s.Exists(store + "/journal.json") {
		t.Fatal("the switch was over before the upgrade was: the test shows nothing")
	}
	s.Must("systemctl", "kill", "--signal=CONT", switchUnits)
	if r, err := update.Wait(); err != nil || r.Code != 0 {
		t.Errorf("the update ended with %d, %v:\n%s", r.Code, err, r.Stderr)
	}
	holds("1.1.0")
	s.updaterInstalled(packageNew)

	// A removal waits for it, and gives up the run that follows it.
	begin("1.2.0", "systemctl", "start", "teleport-update.service")
	m.run(s, "remove", "teleport-update")
	holds("1.2.0")
	if s.Exists(packaged) {
		t.Error("the package is still there")
	}
	if got := s.Must("systemctl", "is-system-running"); got != "running" {
		t.Errorf("after the removal the host is %s: %s", got, s.Must("systemctl", "--failed", "--no-legend"))
	}
}

func TestThePackageAfterASwitchThatWasCutOff(t *testing.T) { eachManager(t, packageAfterACut) }

func packageAfterACut(t *testing.T, m manager) {
	s := packagedScene(t, m)

	// Nothing of this package could close that one.
	s.Write(store+"/journal.json", `{"schema": 99}`)
	s.untouched("a removal that was refused", func() {
		r := m.try(s, "remove", "teleport-update")
		said := r.Stdout + r.Stderr
		if r.Code == 0 || !strings.Contains(said, "not finished") || !strings.Contains(said, "newer updater") {
			t.Errorf("exit code %d of a removal with an open switch:\n%s%s", r.Code, r.Stdout, r.Stderr)
		}
	})
	s.updaterInstalled(packageOld)
	if !s.Exists(store + "/journal.json") {
		t.Fatal("the journal is gone")
	}
	s.Must("rm", store+"/journal.json")

	// This one is closed first.
	s.wants("1.1.0")
	update := s.Background(host.Command{Args: []string{packaged, "update"}})
	s.watched("1.1.0")
	s.Must("systemctl", "kill", "--signal=KILL", switchUnits)
	if _, err := update.Wait(); err != nil {
		t.Fatal(err)
	}
	if !s.Exists(store + "/journal.json") {
		t.Fatal("the switch left no journal: the test shows nothing")
	}
	m.run(s, "remove", "teleport-update")
	if s.Exists(packaged) || s.Exists(store+"/journal.json") {
		t.Error("the package or the journal is still there")
	}
	s.runsFrom(store + "/1.1.0/bin/teleport")
	if got := s.Link(linkDir + "/teleport"); got != store+"/1.1.0/bin/teleport" {
		t.Errorf("the link leads to %s", got)
	}
}

// A host whose updater came without a package gets one.
func TestThePackageReplacesAnUpdaterWithoutOne(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0", "1.1.0")
	s.running("1.0.0", "--health-window", "1s")
	if !s.Exists("/usr/local/lib/systemd/system/teleport-update.timer") {
		t.Fatal("the updater wrote no units: the test shows nothing")
	}
	s.aptRepository(packageOf(t, "teleport-update", packageOld, "deb"))
	process := s.agentProcess()
	s.apt("install", "teleport-update")
	if now := s.agentProcess(); now != process {
		t.Errorf("the agent was %s and is %s", process, now)
	}
	s.Must("rm", "-r", "/var/lib/teleport/updater") // nothing runs it any more
	s.updaterInstalled(packageOld)
	s.wants("1.1.0")
	if code := s.tick(); code != 0 {
		t.Errorf("a tick ended with %d", code)
	}
	s.serves("1.1.0")
}

// An image is built in a folder, where no systemd runs: the units are enabled all
// the same.
func TestThePackageInAnImage(t *testing.T) {
	t.Parallel()
	h := host.MadeForTest(t, host.Options{Plain: true})
	if err := h.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &scene{Test: h, t: t, path: packaged}
	s.aptRepository(packageOf(t, "teleport-update", packageOld, "deb"), packageOf(t, "teleport-find", packageOld, "deb"))
	s.apt("install", "teleport-update", "teleport-find")
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
	s.apt("purge", "teleport-update")
	for _, name := range []string{"/etc/default/teleport-update", "/etc/needrestart", "/usr/share/teleport-update", "/etc/systemd/system/timers.target.wants/teleport-update.timer"} {
		if s.Exists(name) {
			t.Errorf("%s is left", name)
		}
	}
}
