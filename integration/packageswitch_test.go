//go:build hosts

package integration

import (
	"strings"
	"testing"

	"teleport-update/integration/host"
)

// packagedScene has the updater from its package, enabled at 1.0.0, and the next
// version of the package in the repository.
func packagedScene(t *testing.T) *scene {
	t.Helper()
	s := bareScene(t, host.Options{})
	s.path = packaged
	s.sound("1.0.0", "1.1.0", "1.2.0")
	old := packageOf(t, "teleport-update", packageOld, "deb")
	s.aptRepository(old)
	s.apt("install", "teleport-update")
	s.running("1.0.0", "--health-window", "8s")
	s.aptRepository(old, packageOf(t, "teleport-update", packageNew, "deb"))
	return s
}

func TestThePackageInMidSwitch(t *testing.T) {
	s := packagedScene(t)
	begin := func(v string) *host.Process {
		s.wants(v)
		p := s.Background(host.Command{Args: []string{packaged, "update"}})
		s.watched(v)
		return p
	}
	ends := func(p *host.Process, v string) {
		t.Helper()
		if r, err := p.Wait(); err != nil || r.Code != 0 {
			t.Errorf("the update ended with %d, %v:\n%s", r.Code, err, r.Stderr)
		}
		s.runsFrom(store + "/" + v + "/bin/teleport")
		if s.Exists(store + "/journal.json") {
			t.Error("the switch is not finished")
		}
	}

	// An upgrade leaves a switch alone.
	update := begin("1.1.0")
	s.apt("upgrade")
	if !s.Exists(store + "/journal.json") {
		t.Fatal("the switch was over before the upgrade was: the test shows nothing")
	}
	ends(update, "1.1.0")
	s.updaterInstalled(packageNew)

	// A removal waits for it.
	update = begin("1.2.0")
	s.apt("remove", "teleport-update")
	ends(update, "1.2.0")
	if s.Exists(packaged) {
		t.Error("the package is still there")
	}
}

func TestThePackageAfterASwitchThatWasCutOff(t *testing.T) {
	s := packagedScene(t)

	// Nothing of this package could close that one.
	s.Write(store+"/journal.json", `{"schema": 99}`)
	s.untouched("a removal that was refused", func() {
		r := s.tryApt("remove", "teleport-update")
		if r.Code == 0 || !strings.Contains(r.Stderr, "not finished") || !strings.Contains(r.Stderr, "newer updater") {
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
	s.apt("remove", "teleport-update")
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
	s.aptRepository(packageOf(t, "teleport-update", packageOld, "deb"))
	s.apt("install", "teleport-update")
	for _, link := range []string{"timers.target.wants/teleport-update.timer", "multi-user.target.wants/teleport-update-recover.service"} {
		if got := s.Link("/etc/systemd/system/" + link); !strings.HasSuffix(got, "/lib/systemd/system/"+link[strings.Index(link, "/")+1:]) {
			t.Errorf("%s leads to %q", link, got)
		}
	}
	if s.Exists("/var/lib/teleport") {
		t.Error("the package made /var/lib/teleport")
	}
	s.apt("purge", "teleport-update")
	for _, name := range []string{"/etc/default/teleport-update", "/etc/needrestart", "/usr/share/teleport-update", "/etc/systemd/system/timers.target.wants/teleport-update.timer"} {
		if s.Exists(name) {
			t.Errorf("%s is left", name)
		}
	}
}
