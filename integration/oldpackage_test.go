//go:build hosts

package integration

import (
	"fmt"
	"strings"
	"testing"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
)

// The stand-in for Teleport's own package: programs in /usr/local/bin, a unit,
// configuration, and scripts that stop, disable and delete.
const (
	oldPackage   = "0.9.0"
	firedFile    = "/var/log/needrestart-fired"
	goAhead      = "/srv/go-ahead"
	packagesUnit = "/lib/systemd/system/teleport.service"
	packagesOwn  = linkDir + "/fdpass-teleport"
)

// On each Debian: 11 with dpkg 1.20, 12 with 1.21, 13 with 1.22.
func TestAPackageOfAptsIsTakenOver(t *testing.T) {
	for _, suite := range []string{"bullseye", "bookworm", "trixie"} {
		t.Run(suite, func(t *testing.T) { takeOverFromApt(t, sceneOn(t, host.Options{Suite: suite})) })
	}
}

func takeOverFromApt(t *testing.T, s *scene) {
	t.Helper()
	s.installOldDeb("")
	s.sound("1.0.0", "1.1.0")
	s.wants("1.0.0")
	s.enable("--health-window", "1s")
	s.taken("1.0.0")
	if n := s.starts("1.0.0"); n != 1 {
		t.Errorf("the agent was started %d times", n)
	}

	// What an operator does later.
	s.aptRepository(s.oldDeb("0.9.5", ""))
	s.untouched("apt purge", func() { s.apt("purge", "teleport") })
	s.untouched("apt autoremove", func() { s.apt("autoremove") })
	s.untouched("apt upgrade", func() { s.apt("upgrade") })
	s.Must("rm", "-f", firedFile)
	s.wants("1.1.0")
	s.Must(updater, "update")
	s.taken("1.1.0")
	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.taken("1.1.0")

	// One that comes again is taken over again (RFD 0169 §Runtime, enable step 3).
	s.apt("install", "-o", "Dpkg::Options::=--force-confold", "teleport")
	s.Must("rm", "-f", firedFile)
	s.Must(updater, "update")
	process := s.agentProcess()
	s.enable("--health-window", "1s")
	s.taken("1.1.0")
	if now := s.agentProcess(); now != process {
		t.Errorf("the agent was %s and is %s", process, now)
	}

	// The package cannot come back, its agent can.
	s.Must(updater, "uninstall")
	s.runsFrom(linkDir + "/teleport")
	if got := s.Must(linkDir+"/teleport", "version"); !strings.Contains(got, oldPackage) {
		t.Errorf("the agent that was here is %s", got)
	}
	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.runsFrom(linkDir + "/teleport")
}

// A package whose programs are elsewhere takes them along: there is no agent of
// before to go back to.
func TestAnAgentThatWentWithItsPackageCannotBePutBack(t *testing.T) {
	s := newScene(t)
	s.Must("rm", "/etc/teleport.yaml")
	s.aptRepository(s.oldDebIn("/opt/teleport/system/bin", oldPackage, ""))
	s.apt("install", "teleport")
	s.Must("systemctl", "enable", "--now", "teleport")
	s.runsFrom("/opt/teleport/system/bin/teleport")
	s.sound("1.0.0")
	s.wants("1.0.0")
	s.enable("--health-window", "1s")
	s.serves("1.0.0")
	s.fails(1, "came with the package teleport 0.9.0, which was removed with /opt/teleport/system/bin/teleport; updates are disabled, nothing else was changed", updater, "uninstall")
	s.serves("1.0.0")
	process := s.agentProcess()
	s.Must(updater, "uninstall", "--keep-agent")
	if now := s.agentProcess(); now != process {
		t.Errorf("the agent was %s and is %s", process, now)
	}
	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.runsFrom(linkDir + "/teleport")
	// The package may come back over it.
	s.apt("install", "-o", "Dpkg::Options::=--force-confold", "teleport")
}

func TestAPackageThatCannotBeRemovedStays(t *testing.T) {
	s := newScene(t)
	s.installOldDeb("fails")
	s.sound("1.0.0")
	s.wants("1.0.0")
	s.enable("--health-window", "1s")
	s.serves("1.0.0")
	process := s.agentProcess()
	tries := func() int {
		return strings.Count(s.Log(""), "the package could not be removed; a later run tries again")
	}
	if n := tries(); n != 1 || !strings.Contains(s.Read(store+"/updates.yaml"), "packages_left") {
		t.Errorf("it was tried %d times, and is remembered as\n%s", n, s.Read(store+"/updates.yaml"))
	}
	for range 2 {
		if code := s.tick(); code != 0 {
			t.Errorf("a tick ends with %d", code)
		}
	}
	if n := tries(); n != 1 {
		t.Errorf("it was tried %d times within minutes", n)
	}
	s.Must("sed", "-i", "/^exit 1$/d", "/var/lib/dpkg/info/teleport.prerm")
	s.Must("rm", "-f", firedFile)
	s.enable("--health-window", "1s") // a person's command does not wait
	s.taken("1.0.0")
	if now := s.agentProcess(); now != process {
		t.Errorf("the agent was %s and is %s", process, now)
	}
}

func TestAFailedEnableLeavesThePackageAsItWas(t *testing.T) {
	s := newScene(t)
	s.installOldDeb("")
	s.release(release.Spec{Version: "1.0.0", Variant: stamp.DiesOnReload, Schema: 2})
	s.Must("mkdir", "-p", "/var/lib/systemd/timers")
	before := s.Tree(theHost...)
	s.wants("1.0.0")
	s.fails(1, "version 1.0.0 did not hold and was rolled back", updater, "enable",
		"--proxy", proxyAddress, "--template", templateURL, "--health-window", "1s")
	s.Unchanged(before, s.Tree(theHost...), agentState, store)
	if out := s.Must("dpkg", "--verify", "teleport"); out != "" {
		t.Errorf("of the package differs:\n%s", out)
	}
	s.runsFrom(linkDir + "/teleport")
	if got := s.Must("dpkg-query", "-W", "-f", "${db:Status-Status}", "teleport"); got != "installed" {
		t.Errorf("the package is %s", got)
	}
}

func TestAPackageWaitsForOthersToEnd(t *testing.T) {
	s := newScene(t)
	s.installOldDeb("")
	s.sound("1.0.0")
	// A package that is held is taken over all the same: the hold is for apt.
	s.Must("apt-mark", "hold", "teleport")
	other := s.aptAtWork()

	s.wants("1.0.0")
	s.enable("--health-window", "1s")
	s.serves("1.0.0")
	if got := s.Must("dpkg-query", "-W", "-f", "${db:Status-Status}", "teleport"); got != "installed" {
		t.Errorf("the package is %s", got)
	}
	if !strings.Contains(s.Log(""), "the package cannot be removed now; a later run tries again") || !strings.Contains(s.Read(store+"/updates.yaml"), "packages_left") {
		t.Errorf("nobody says that it waits:\n%s", s.Read(store+"/updates.yaml"))
	}
	if left := text(s.status().PackageLeft); !strings.Contains(left, "teleport 0.9.0: packages cannot be changed now: apt-get (process ") {
		t.Errorf("status: package left %s", left)
	}
	if code := s.tick(); code != 0 {
		t.Errorf("a tick meanwhile ends with %d", code)
	}
	process := s.agentProcess()
	s.Write(goAhead, "")
	s.ends(other, 0)
	s.Must("rm", "-f", firedFile)
	if code := s.tick(); code != 0 {
		t.Errorf("the tick after it ends with %d", code)
	}
	s.taken("1.0.0")
	if now := s.agentProcess(); now != process {
		t.Errorf("the agent was %s and is %s", process, now)
	}
	if strings.Contains(s.Read(store+"/updates.yaml"), "packages_left") || s.status().PackageLeft != nil {
		t.Error("it is still remembered")
	}
}

func TestARemovalThatIsCutOffEndsWhole(t *testing.T) {
	for _, where := range []string{"prerm", "postrm"} {
		for _, how := range []string{"killed", "power cut"} {
			t.Run(where+", "+how, func(t *testing.T) {
				s := newScene(t)
				s.installOldDeb(where)
				s.sound("1.0.0")
				s.wants("1.0.0")
				enable := s.Background(host.Command{Args: []string{updater, "enable", "--proxy", proxyAddress, "--template", templateURL, "--health-window", "1s"}})
				host.Wait(t, patience, func() error {
					if !s.Exists("/srv/" + where) {
						return fmt.Errorf("the removal has not begun")
					}
					return nil
				})
				process := s.agentProcess()
				if how == "killed" {
					s.Must("systemctl", "kill", "--signal=KILL", switchUnits)
					if _, err := enable.Wait(); err != nil {
						t.Fatal(err)
					}
				} else {
					s.check(s.Kill())
					s.check(s.Boot(t.Context()))
				}
				// Whole before anybody goes on with it.
				s.linkedFiles("1.0.0")
				s.runsFrom(store + "/1.0.0/bin/teleport")
				if now := s.agentProcess(); how == "killed" && now != process {
					t.Errorf("the agent was %s and is %s", process, now)
				}
				s.Write(goAhead, "")
				process = s.agentProcess()
				if code := s.tick(); code != 0 {
					t.Errorf("the tick that goes on with it ends with %d", code)
				}
				s.taken("1.0.0")
				if now := s.agentProcess(); now != process {
					t.Errorf("the agent was %s and is %s", process, now)
				}
			})
		}
	}
}

func TestAPackageOfDnfsIsTakenOver(t *testing.T) {
	s := sceneOn(t, dnfHost)
	s.installOldRPM()
	s.sound("1.0.0")
	s.wants("1.0.0")
	s.enable("--health-window", "1s")
	s.serves("1.0.0")
	if r := s.Try("rpm", "-q", "teleport"); r.Code == 0 {
		t.Errorf("rpm says that the package is there: %s", r.Stdout)
	}
	s.wholeAgent()
	if n := s.starts("1.0.0"); n != 1 {
		t.Errorf("the agent was started %d times", n)
	}
	s.dnfRepository(s.oldRPM("0.9.5"))
	s.untouched("dnf upgrade", func() { s.dnf("upgrade") })
	s.untouched("dnf autoremove", func() { s.dnf("autoremove") })
	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.serves("1.0.0")
	s.wholeAgent()
}
