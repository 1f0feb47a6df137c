//go:build hosts

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"teleport-update/integration/host"
)

func TestUninstallLeavesAFreshHostAsItWas(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0", "1.1.0")
	s.Must("mkdir", "-p", "/var/lib/systemd/timers") // systemd makes it for any timer that is persistent
	before := s.Tree(theHost...)
	s.running("1.0.0", "--health-window", "1s")
	s.wants("1.1.0")
	s.Must(updater, "update")
	s.serves("1.1.0")
	rows := s.rowsOf("1.1.0")

	s.Must(updater, "uninstall")
	s.Unchanged(before, s.Tree(theHost...), "/var/lib/teleport")
	s.onlyAgentsDataIsLeft()
	if now := s.rowsOf("1.1.0"); now < rows {
		t.Errorf("of %d rows of the agent's database %d are left", rows, now)
	}
	if load, active := s.Show("teleport", "LoadState"), s.Show("teleport", "ActiveState"); load != "not-found" || active != "inactive" {
		t.Errorf("the agent's unit is %s, %s", load, active)
	}
	s.statusIs("disabled")
	s.Must(updater, "uninstall") // again
	s.Unchanged(before, s.Tree(theHost...), "/var/lib/teleport")

	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.Must("systemctl", "is-system-running"); got != "running" {
		t.Errorf("after a reboot the host is %s: %s", got, s.Must("systemctl", "--failed", "--no-legend"))
	}
	s.enable("--health-window", "1s")
	s.linked("1.1.0")
}

func TestUninstallPutsBackTheAgentThatWasHere(t *testing.T) {
	for how, a := range foreignAgents {
		t.Run(how, func(t *testing.T) {
			s := newScene(t)
			s.sound("1.0.0", "1.1.0")
			s.runForeign("0.9.0", a)
			s.Must("mkdir", "-p", "/var/lib/systemd/timers")
			before := s.Tree(theHost...)
			s.wants("1.0.0")
			s.enable("--health-window", "1s")
			s.wants("1.1.0")
			s.Must(updater, "update")
			s.serves("1.1.0")

			s.Must(updater, "uninstall")
			s.Unchanged(before, s.Tree(theHost...), "/var/lib/teleport")
			s.onlyAgentsDataIsLeft()
			s.runsFrom(a.binDir + "/teleport")
			if err := s.Reboot(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.runsFrom(a.binDir + "/teleport")
		})
	}
}

func TestUninstallCanLeaveTheAgent(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0", "1.1.0")
	s.running("1.0.0", "--health-window", "1s")
	s.wants("1.1.0")
	s.Must(updater, "update")
	s.serves("1.1.0")
	unit, before := s.Read(unitFile), s.seen()
	s.Must("rm", store+"/original/before.json")
	s.fails(1, "what was here before the first enable is not known", updater, "uninstall")
	s.serves("1.1.0")
	asked := s.askAllTheTime("http://127.0.0.1:3000/readyz")

	s.Must(updater, "uninstall", "--keep-agent")
	if got := before.became(s.seen()); got != inPeace {
		t.Errorf("the agent was %s", got)
	}
	if n, failed := asked(); len(failed) > 0 {
		t.Errorf("of %d requests %d failed: %v", n, len(failed), failed)
	}
	s.onlyAgentsDataIsLeft()
	for _, name := range []string{"teleport", "tsh", "tctl", "tbot"} {
		info, err := s.Lstat(linkDir + "/" + name)
		if err != nil || info.Mode() != 0o755 {
			t.Errorf("%s is not a plain program: %v, %v", name, info, err)
		}
		if out := s.Must(linkDir+"/"+name, "version"); !strings.Contains(out, "v1.1.0") {
			t.Errorf("%s prints %q", name, out)
		}
	}
	if got := s.Read(unitFile); got != unit {
		t.Errorf("the unit changed:\n%s", got)
	}

	s.Must("systemctl", "reload", "teleport")
	host.Wait(t, patience, func() error {
		if before.became(s.seen()) == inPeace {
			return fmt.Errorf("the reload had no effect")
		}
		return nil
	})
	s.runsFrom(linkDir + "/teleport")
	s.Must("systemctl", "restart", "teleport")
	s.runsFrom(linkDir + "/teleport")
	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.runsFrom(linkDir + "/teleport")
	if r := s.Try("systemctl", "list-unit-files", "--no-legend", "teleport-update*"); r.Stdout != "" {
		t.Errorf("units of the updater are left:\n%s", r.Stdout)
	}
}

func (s *scene) runsFrom(program string) {
	s.t.Helper()
	host.Wait(s.t, patience, func() error { return s.executes(program) })
}

// onlyAgentsDataIsLeft asserts that nothing in the agent's folder is the
// updater's.
func (s *scene) onlyAgentsDataIsLeft() {
	s.t.Helper()
	names, err := s.Names("/var/lib/teleport")
	if err != nil {
		s.t.Fatal(err)
	}
	if !slices.Equal(names, []string{"host_uuid", "proc"}) {
		s.t.Errorf("/var/lib/teleport holds %v", names)
	}
	if units := s.Must("systemctl", "list-units", "--all", "--plain", "--no-legend", "teleport-update*"); units != "" {
		s.t.Errorf("units are left:\n%s", units)
	}
}
