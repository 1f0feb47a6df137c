//go:build hosts

package takeover

import (
	"fmt"
	"strings"
	"testing"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// On each Debian: 11 with dpkg 1.20, 12 with 1.21, 13 with 1.22.
func TestAPackageOfAptsIsTakenOver(t *testing.T) {
	t.Parallel()
	for _, suite := range []string{"bullseye", "bookworm", "trixie"} {
		t.Run(suite, func(t *testing.T) { takeOverFromApt(t, sceneOn(t, host.Options{Suite: suite})) })
	}
}

func takeOverFromApt(t *testing.T, s *scene) {
	t.Helper()
	s.InstallOldDeb("")
	s.Sound("1.0.0", "1.1.0")
	s.Wants("1.0.0")
	s.Enable("--health-window", "1s")
	s.Taken("1.0.0")
	if n := s.Starts("1.0.0"); n != 1 {
		t.Errorf("the agent was started %d times", n)
	}

	// What an operator does later.
	s.AptRepository(s.OldDeb("0.9.5", ""))
	s.Untouched("apt purge", func() { s.Apt("purge", "teleport") })
	s.Untouched("apt autoremove", func() { s.Apt("autoremove") })
	s.Untouched("apt upgrade", func() { s.Apt("upgrade") })
	s.Must("rm", "-f", scenes.FiredFile)
	s.Wants("1.1.0")
	s.Must(updater, "update")
	s.Taken("1.1.0")
	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Taken("1.1.0")

	// One that comes again is taken over again (RFD 0169 §Runtime, enable step 3).
	s.Apt("install", "-o", "Dpkg::Options::=--force-confold", "teleport")
	s.Must("rm", "-f", scenes.FiredFile)
	s.Must(updater, "update")
	process := s.AgentProcess()
	s.Enable("--health-window", "1s")
	s.Taken("1.1.0")
	if now := s.AgentProcess(); now != process {
		t.Errorf("the agent was %s and is %s", process, now)
	}

	// The package comes back by the command that is printed.
	process = s.AgentProcess()
	out := s.Must(updater, "uninstall")
	if now := s.AgentProcess(); now != process {
		t.Errorf("the agent was %s and is %s", process, now)
	}
	s.typesPrinted(out, "the agent's package")
	s.RunsFrom(linkDir + "/teleport")
	if got := s.Must(linkDir+"/teleport", "version"); !strings.Contains(got, "0.9.5") {
		t.Errorf("the agent that was here is %s", got)
	}
	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.RunsFrom(linkDir + "/teleport")
}

// typesPrinted runs the command that an uninstall printed for what a person may want.
func (s *scene) typesPrinted(out, what string) {
	s.T.Helper()
	_, command, found := strings.Cut(out, "  "+what+": ")
	if !found {
		s.T.Fatalf("uninstall prints\n%s", out)
	}
	command, _, _ = strings.Cut(command, "\n")
	s.T.Log(command)
	s.Must("sh", "-c", "set -e; export DEBIAN_FRONTEND=noninteractive; "+command)
}

// A package whose programs are elsewhere takes them along.
func TestAPackageWithProgramsElsewhereComesBackAsPrinted(t *testing.T) {
	s := newScene(t)
	s.Must("rm", "/etc/teleport.yaml")
	s.AptRepository(s.OldDebIn("/opt/teleport/system/bin", scenes.OldVersion, ""))
	s.Apt("install", "teleport")
	s.Must("systemctl", "enable", "--now", "teleport")
	s.RunsFrom("/opt/teleport/system/bin/teleport")
	s.Sound("1.0.0")
	s.Wants("1.0.0")
	s.Enable("--health-window", "1s")
	s.Serves("1.0.0")
	process := s.AgentProcess()
	out := s.Must(updater, "uninstall")
	if now := s.AgentProcess(); now != process {
		t.Errorf("the agent was %s and is %s", process, now)
	}
	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.RunsFrom(linkDir + "/teleport")
	s.typesPrinted(out, "the agent's package")
	s.RunsFrom("/opt/teleport/system/bin/teleport")
	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.RunsFrom("/opt/teleport/system/bin/teleport")
}

func TestAPackageThatCannotBeRemovedStays(t *testing.T) {
	s := newScene(t)
	s.InstallOldDeb("fails")
	s.Sound("1.0.0")
	s.Wants("1.0.0")
	s.Enable("--health-window", "1s")
	s.Serves("1.0.0")
	process := s.AgentProcess()
	tries := func() int {
		return strings.Count(s.Log(""), "the package could not be removed; a later run tries again")
	}
	if n := tries(); n != 1 || !strings.Contains(s.Read(store+"/updates.yaml"), "packages_left") {
		t.Errorf("it was tried %d times, and is remembered as\n%s", n, s.Read(store+"/updates.yaml"))
	}
	for range 2 {
		if code := s.Tick(); code != 0 {
			t.Errorf("a tick ends with %d", code)
		}
	}
	if n := tries(); n != 1 {
		t.Errorf("it was tried %d times within minutes", n)
	}
	s.Must("sed", "-i", "/^exit 1$/d", "/var/lib/dpkg/info/teleport.prerm")
	s.Must("rm", "-f", scenes.FiredFile)
	s.Enable("--health-window", "1s") // a person's command does not wait
	s.Taken("1.0.0")
	if now := s.AgentProcess(); now != process {
		t.Errorf("the agent was %s and is %s", process, now)
	}
}

func TestAFailedEnableLeavesThePackageAsItWas(t *testing.T) {
	s := newScene(t)
	s.InstallOldDeb("")
	s.Release(release.Spec{Version: "1.0.0", Variant: stamp.DiesOnReload, Schema: 2})
	s.Must("mkdir", "-p", "/var/lib/systemd/timers")
	before := s.Tree(scenes.TheHost...)
	s.Wants("1.0.0")
	s.Fails(1, "version 1.0.0 was not healthy and was rolled back", updater, "enable",
		"--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--health-window", "1s")
	s.Unchanged(before, s.Tree(scenes.TheHost...), scenes.AgentState, store)
	if out := s.Must("dpkg", "--verify", "teleport"); out != "" {
		t.Errorf("of the package differs:\n%s", out)
	}
	s.RunsFrom(linkDir + "/teleport")
	if got := s.Must("dpkg-query", "-W", "-f", "${db:Status-Status}", "teleport"); got != "installed" {
		t.Errorf("the package is %s", got)
	}
}

func TestAPackageWaitsForOthersToEnd(t *testing.T) {
	s := newScene(t)
	s.InstallOldDeb("")
	s.Sound("1.0.0")
	// A package that is held is taken over all the same: the hold is for apt.
	s.Must("apt-mark", "hold", "teleport")
	other := s.aptAtWork()

	s.Wants("1.0.0")
	s.Enable("--health-window", "1s")
	s.Serves("1.0.0")
	if got := s.Must("dpkg-query", "-W", "-f", "${db:Status-Status}", "teleport"); got != "installed" {
		t.Errorf("the package is %s", got)
	}
	if !strings.Contains(s.Log(""), "the package cannot be removed now; a later run tries again") || !strings.Contains(s.Read(store+"/updates.yaml"), "packages_left") {
		t.Errorf("nobody says that it waits:\n%s", s.Read(store+"/updates.yaml"))
	}
	if left := scenes.Text(s.Status().PackageLeft); !strings.Contains(left, "teleport 0.9.0: packages cannot be changed now: apt-get (process ") {
		t.Errorf("status: package left %s", left)
	}
	if code := s.Tick(); code != 0 {
		t.Errorf("a tick meanwhile ends with %d", code)
	}
	process := s.AgentProcess()
	s.Write(scenes.GoAhead, "")
	s.Ends(other, 0)
	s.Must("rm", "-f", scenes.FiredFile)
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick after it ends with %d", code)
	}
	s.Taken("1.0.0")
	if now := s.AgentProcess(); now != process {
		t.Errorf("the agent was %s and is %s", process, now)
	}
	if strings.Contains(s.Read(store+"/updates.yaml"), "packages_left") || s.Status().PackageLeft != nil {
		t.Error("it is still remembered")
	}
}

func TestARemovalThatIsCutOffEndsWhole(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"prerm", "postrm"} {
		for _, how := range []string{"killed", "power cut"} {
			t.Run(where+", "+how, func(t *testing.T) {
				s := newScene(t)
				s.InstallOldDeb(where)
				s.Sound("1.0.0")
				s.Wants("1.0.0")
				enable := s.Background(host.Command{Args: []string{updater, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--health-window", "1s"}})
				host.Wait(t, patience, func() error {
					if !s.Exists("/srv/" + where) {
						return fmt.Errorf("the removal has not begun")
					}
					return nil
				})
				process := s.AgentProcess()
				if how == "killed" {
					s.KillsMain(scenes.SwitchUnits)
					if _, err := enable.Wait(); err != nil {
						t.Fatal(err)
					}
				} else {
					s.Check(s.Kill())
					s.Check(s.Boot(t.Context()))
				}
				// Whole before anybody goes on with it.
				s.LinkedFiles("1.0.0")
				s.RunsFrom(programs + "/1.0.0/bin/teleport")
				if now := s.AgentProcess(); how == "killed" && now != process {
					t.Errorf("the agent was %s and is %s", process, now)
				}
				s.Write(scenes.GoAhead, "")
				process = s.AgentProcess()
				if code := s.Tick(); code != 0 {
					t.Errorf("the tick that goes on with it ends with %d", code)
				}
				s.Taken("1.0.0")
				if now := s.AgentProcess(); now != process {
					t.Errorf("the agent was %s and is %s", process, now)
				}
			})
		}
	}
}

func TestAPackageOfDnfsIsTakenOver(t *testing.T) {
	s := sceneOn(t, scenes.DnfHost)
	s.InstallOldRPM()
	s.Sound("1.0.0")
	s.Wants("1.0.0")
	s.Enable("--health-window", "1s")
	s.Serves("1.0.0")
	if r := s.Try("rpm", "-q", "teleport"); r.Code == 0 {
		t.Errorf("rpm says that the package is there: %s", r.Stdout)
	}
	s.WholeAgent()
	if n := s.Starts("1.0.0"); n != 1 {
		t.Errorf("the agent was started %d times", n)
	}
	s.DnfRepository(s.OldRPM("0.9.5"), s.OldRPM(scenes.OldVersion))
	s.Untouched("dnf upgrade", func() { s.Dnf("upgrade") })
	s.Untouched("dnf autoremove", func() { s.Dnf("autoremove") })
	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Serves("1.0.0")
	s.WholeAgent()

	s.typesPrinted(s.Must(updater, "uninstall"), "the agent's package")
	s.RunsFrom(linkDir + "/teleport")
	if got := s.Must(linkDir+"/teleport", "version"); !strings.Contains(got, scenes.OldVersion) {
		t.Errorf("the agent that was here is %s", got)
	}
}
