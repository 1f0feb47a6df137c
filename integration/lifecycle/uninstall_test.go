//go:build hosts

package lifecycle

import (
	"fmt"
	"strings"
	"testing"

	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
)

func TestUninstallLeavesAFreshHostAsItWas(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.Must("mkdir", "-p", "/var/lib/systemd/timers") // systemd makes it for any timer that is persistent
	before := s.Tree(scenes.TheHost...)
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Wants("1.1.0")
	s.Must(updater, "update")
	s.Serves("1.1.0")
	rows := s.RowsOf("1.1.0")

	s.Must(updater, "uninstall")
	s.Unchanged(before, s.Tree(scenes.TheHost...), "/var/lib/teleport")
	s.OnlyAgentsDataIsLeft()
	if now := s.RowsOf("1.1.0"); now < rows {
		t.Errorf("of %d rows of the agent's database %d are left", rows, now)
	}
	if load, active := s.Show("teleport", "LoadState"), s.Show("teleport", "ActiveState"); load != "not-found" || active != "inactive" {
		t.Errorf("the agent's unit is %s, %s", load, active)
	}
	s.StatusIs("disabled")
	s.Must(updater, "uninstall") // again
	s.Unchanged(before, s.Tree(scenes.TheHost...), "/var/lib/teleport")

	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.Must("systemctl", "is-system-running"); got != "running" {
		t.Errorf("after a reboot the host is %s: %s", got, s.Must("systemctl", "--failed", "--no-legend"))
	}
	s.Enable("--health-window", "1s")
	s.Linked("1.1.0")
}

func TestUninstallPutsBackTheAgentThatWasHere(t *testing.T) {
	t.Parallel()
	for how, a := range scenes.PreExistingAgents {
		t.Run(how, func(t *testing.T) {
			s := newScene(t)
			s.Sound("1.0.0", "1.1.0")
			s.RunPreExisting("0.9.0", a)
			s.Must("mkdir", "-p", "/var/lib/systemd/timers")
			before := s.Tree(scenes.TheHost...)
			s.Wants("1.0.0")
			s.Enable("--health-window", "1s")
			s.Wants("1.1.0")
			s.Must(updater, "update")
			s.Serves("1.1.0")

			s.Must(updater, "uninstall")
			s.Unchanged(before, s.Tree(scenes.TheHost...), "/var/lib/teleport")
			s.OnlyAgentsDataIsLeft()
			s.RunsFrom(a.BinDir + "/teleport")
			if err := s.Reboot(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.RunsFrom(a.BinDir + "/teleport")
		})
	}
}

func TestUninstallCanLeaveTheAgent(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Wants("1.1.0")
	s.Must(updater, "update")
	s.Serves("1.1.0")
	unit, before := s.Read(unitFile), s.Seen()
	s.Must("rm", store+"/original/before.json")
	s.Fails(1, "what was here before the first enable is not known", updater, "uninstall")
	s.Serves("1.1.0")
	asked := s.AskAllTheTime("http://127.0.0.1:3000/readyz")

	s.Must(updater, "uninstall", "--keep-agent")
	if got := before.Became(s.Seen()); got != scenes.InPeace {
		t.Errorf("the agent was %s", got)
	}
	if n, failed := asked(); len(failed) > 0 {
		t.Errorf("of %d requests %d failed: %v", n, len(failed), failed)
	}
	s.OnlyAgentsDataIsLeft()
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
		if before.Became(s.Seen()) == scenes.InPeace {
			return fmt.Errorf("the reload had no effect")
		}
		return nil
	})
	s.RunsFrom(linkDir + "/teleport")
	s.Must("systemctl", "restart", "teleport")
	s.RunsFrom(linkDir + "/teleport")
	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.RunsFrom(linkDir + "/teleport")
	if r := s.Try("systemctl", "list-unit-files", "--no-legend", "teleport-update*"); r.Stdout != "" {
		t.Errorf("units of the updater are left:\n%s", r.Stdout)
	}
}
