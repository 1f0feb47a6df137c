//go:build hosts

package takeover

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

const second = "/usr/bin/teleport-updater"

// othersHost is a host of Teleport's own updater, on which our package is installed.
func othersHost(t *testing.T, more ...string) *scene {
	t.Helper()
	s := &scene{scenes.Bare(t, host.Options{})}
	s.Path = second
	s.AptRepository(scenes.PackageOf(t, "teleport-update", scenes.PackageOld, "deb"))
	s.InstallOwnUpdater(scenes.OldVersion, more...)
	timer := func() string {
		return fmt.Sprint(s.Show("teleport-update.timer", "ActiveState"), s.Show("teleport-update.timer", "ActiveEnterTimestampMonotonic"),
			s.Show("teleport-update.timer", "FragmentPath"), s.Link("/etc/systemd/system/timers.target.wants/teleport-update.timer"))
	}
	before := timer()
	s.Apt("install", "teleport-update")
	if now := timer(); now != before {
		t.Errorf("the other updater's timer was %s and is %s", before, now)
	}
	return s
}

// there tells which files of the other updater are there.
func (s *scene) there() (files []string) {
	for _, file := range scenes.OthersFiles {
		to := s.Try("readlink", file).Stdout // of ours, the timer is enabled by a link of the same name
		if strings.HasPrefix(to, "/usr/lib/") || strings.HasPrefix(to, "/lib/") {
			continue
		}
		if to != "" || s.Exists(file) {
			files = append(files, file)
		}
	}
	return files
}

// othersManage asserts that the other updater is what it was, with its agent.
func (s *scene) othersManage() {
	s.T.Helper()
	s.RunsFrom(scenes.OthersDir + "/versions/" + scenes.OldVersion + "/bin/teleport")
	if there := s.there(); !slices.Equal(there, scenes.OthersFiles) {
		s.T.Errorf("of the other updater there is %q", there)
	}
	if got := s.Show("teleport-update.timer", "FragmentPath") + " " + s.Show("teleport-update.timer", "ActiveState"); got != scenes.OthersTimer+" active" {
		s.T.Errorf("the other updater's timer is %s", got)
	}
}

// A run of the other updater that waits for its lock while it is replaced does nothing.
func TestTeleportsOwnUpdaterIsReplaced(t *testing.T) {
	s := othersHost(t, "  proxy: "+cluster.ProxyAddress, "  group: staging", "  base_url: "+cluster.ProxyAddress+"/releases")
	s.Sound("1.0.0", "1.1.0")
	s.Wants("1.0.0")
	before := s.Tree(scenes.TheHost...)
	s.Fails(1, "managed by another updater (/opt/teleport/default/update.yaml); nothing was changed: `teleport-updater enable --replace-updater` takes the host over and removes "+
		"that updater once a version is proven; or run `/usr/local/bin/teleport-update uninstall`, which is Teleport's own program, and then `teleport-updater enable`",
		second, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL)
	s.Unchanged(before, s.Tree(scenes.TheHost...), scenes.AgentState, store)

	run := s.Show("teleport", "InvocationID")
	enable := s.Background(host.Command{Args: []string{second, "enable", "--replace-updater", "--health-window", "6s"}})
	s.Reaches(enable, "switched")
	s.Signals(syscall.SIGSTOP)
	s.Must("systemctl", "start", "--no-block", "teleport-update.service")
	host.Wait(t, patience, func() error {
		if got := s.Show("teleport-update.service", "ActiveState"); got != "activating" {
			return fmt.Errorf("the run of the other updater is %s", got)
		}
		return nil
	})
	s.Signals(syscall.SIGCONT)
	s.Ends(enable, 0)
	host.Wait(t, patience, func() error {
		if !s.Exists(scenes.OthersRan) {
			return fmt.Errorf("the run of the other updater has not had its lock yet")
		}
		return nil
	})
	host.Wait(t, patience, func() error {
		if got := s.Show("teleport-update.service", "ActiveState"); got == "activating" {
			return fmt.Errorf("it goes on")
		}
		return nil
	})
	if s.Exists(scenes.OthersActed) {
		t.Error("the run that waited acted")
	}
	s.Serves("1.0.0")
	if now := s.Show("teleport", "InvocationID"); now != run {
		t.Error("the agent was restarted")
	}
	if there := s.there(); len(there) > 0 {
		t.Errorf("of the other updater there is %q", there)
	}
	s.UpdaterInstalled(scenes.PackageOld)
	if got := s.Read(store + "/updates.yaml"); !strings.Contains(got, "proxy: "+cluster.ProxyAddress) || !strings.Contains(got, "group: staging") ||
		!strings.Contains(got, cluster.ProxyAddress+"/releases/teleport{{") {
		t.Errorf("the configuration is\n%s", got)
	}
	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Wants("1.1.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("a tick ends with %d", code)
	}
	s.Serves("1.1.0")

	versions := scenes.OthersDir + "/versions"
	program := versions + "/" + scenes.OldVersion + "/bin/teleport-update enable --proxy " + cluster.ProxyAddress
	if plan := s.Must(second, "uninstall"); !strings.Contains(plan, program) {
		t.Errorf("uninstall does not say how that updater comes back, by %s:\n%s", program, plan)
	}
	if there := s.there(); len(there) > 0 {
		t.Errorf("of the other updater there is %q", there)
	}
}

func TestAPinnedHostOfTeleportsOwnUpdaterStaysOnItsVersion(t *testing.T) {
	s := othersHost(t, "  proxy: "+cluster.ProxyAddress, "  pinned: true", "  base_url: "+cluster.ProxyAddress+"/releases")
	s.Sound(scenes.OldVersion, "1.0.0")
	s.Wants("1.0.0")
	s.Must(second, "enable", "--replace-updater", "--health-window", "1s")
	s.Serves(scenes.OldVersion)
	if r := s.Status(); !r.Pinned {
		t.Error("the host is not pinned")
	}
}

func TestAFailedReplacementLeavesTheOtherUpdaterAsItWas(t *testing.T) {
	s := othersHost(t, "  proxy: "+cluster.ProxyAddress, "  base_url: "+cluster.ProxyAddress+"/releases")
	s.Release(release.Spec{Version: "1.0.0", Variant: stamp.DiesOnReload, Schema: 2})
	before := s.Tree(scenes.TheHost...)
	s.Wants("1.0.0")
	s.Fails(1, "version 1.0.0 was not healthy and was rolled back", second, "enable", "--replace-updater", "--health-window", "1s")
	s.Unchanged(before, s.Tree(scenes.TheHost...), scenes.AgentState, store, scenes.OthersDir+"/update.lock")
	s.othersManage()
}

// One that comes to a host of ours goes without a transaction: the version is the wanted one.
func TestAnUpdaterThatComesLaterIsReplacedWithoutATransaction(t *testing.T) {
	s := &scene{scenes.Bare(t, host.Options{})}
	s.Path = second
	s.AptRepository(scenes.PackageOf(t, "teleport-update", scenes.PackageOld, "deb"))
	s.Apt("install", "teleport-update")
	s.Sound("1.0.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.AddOwnUpdater(scenes.OldVersion)
	process := s.AgentProcess()
	s.Fails(1, "managed by another updater (/opt/teleport/default/update.yaml)", second, "enable")
	const advised = "`teleport-updater enable --replace-updater`"
	if said := s.Try(second, "status", "--format", "text").Stdout; !strings.Contains(said, "this host is managed by another updater") || !strings.Contains(said, advised) {
		t.Errorf("status says:\n%s", said)
	}
	s.Must(second, "enable", "--replace-updater")
	s.Serves("1.0.0")
	if said := s.Try(second, "status", "--format", "text").Stdout; strings.Contains(said, "another updater") || strings.Contains(said, "needs_attention") {
		t.Errorf("after what it advises, status says:\n%s", said)
	}
	if now := s.AgentProcess(); now != process {
		t.Errorf("the agent was %s and is %s", process, now)
	}
	if there := s.there(); len(there) > 0 {
		t.Errorf("of the other updater there is %q", there)
	}
	s.UpdaterInstalled(scenes.PackageOld)
	s.Must("systemctl", "start", "teleport-update.service")
	if s.Exists(scenes.OthersRan) {
		t.Error("the timer's unit runs the other updater")
	}
}

// Cut off before the version is proven, all is as it was; after that, the other updater
// is gone in the end. Our timer, which would see to it, is not there.
func TestAReplacementThatIsCutOffEndsWhole(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{"switched", "replacing"} {
		t.Run(phase, func(t *testing.T) {
			s := othersHost(t, "  proxy: "+cluster.ProxyAddress, "  base_url: "+cluster.ProxyAddress+"/releases")
			s.Put(s.Program(scenes.Endat), "/root/endat")
			s.Sound("1.0.0")
			s.Wants("1.0.0")
			if phase == "switched" {
				enable := s.Background(host.Command{Args: []string{second, "enable", "--replace-updater", "--health-window", "20s"}})
				s.Reaches(enable, phase)
			} else {
				s.Must("chattr", "+i", scenes.OthersTimer) // its removal fails
				s.Fails(4, "is healthy, but could not be committed", second, "enable", "--replace-updater", "--health-window", "1s")
				if got := s.Phase(); got != phase {
					t.Fatalf("the journal says %q", got)
				}
				s.Must("chattr", "-i", scenes.OthersTimer)
			}
			s.Check(s.Kill())
			s.Check(s.Boot(t.Context()))
			host.Wait(t, patience, func() error {
				if got := s.Phase(); got != "" {
					return fmt.Errorf("the journal says %q", got)
				}
				return nil
			})
			if phase == "switched" {
				s.othersManage()
				return
			}
			s.Serves("1.0.0")
			if there := s.there(); len(there) > 0 {
				t.Errorf("of the other updater there is %q", there)
			}
			s.UpdaterInstalled(scenes.PackageOld)
		})
	}
}

func TestTeleportUpgradeIsReplaced(t *testing.T) {
	s := newScene(t)
	s.InstallOldDeb("")
	s.AptRepository(s.OldDeb(scenes.OldVersion, ""), s.UpgradeDeb())
	s.Apt("install", "teleport-ent-updater")
	s.Must("rm", "-f", scenes.FiredFile)
	s.Sound("1.0.0")
	s.Wants("1.0.0")
	s.Fails(1, "/systemd/system/teleport-upgrade.timer); nothing was changed: `teleport-updater enable --replace-updater` takes the host over and removes that updater once a "+
		"version is proven; or remove the package teleport-ent-updater, and then `teleport-updater enable`", updater, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL)
	s.Enable("--replace-updater", "--health-window", "1s")
	s.Taken("1.0.0")
	if got := s.Try("dpkg-query", "-W", "-f", "${db:Status-Status}", "teleport-ent-updater").Stdout; got != "" && got != "not-installed" {
		t.Errorf("teleport-ent-updater is %s", got)
	}
	if got := s.Show("teleport-upgrade.timer", "ActiveState"); got != "inactive" {
		t.Errorf("its timer is %s", got)
	}
	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Taken("1.0.0")
	if output := s.Must(updater, "uninstall"); !strings.Contains(output, "apt-get install -y teleport-ent-updater=1.0") {
		t.Errorf("uninstall says\n%s", output)
	}
	s.Must("systemctl", "restart", "teleport")
	s.RunsFrom(linkDir + "/teleport")
}
