//go:build hosts

package lifecycle

import (
	"fmt"
	"strings"
	"testing"

	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
)

func TestUninstallWithTheAgentLeavesAFreshHostAsItWas(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.Must("mkdir", "-p", "/var/lib/systemd/timers") // systemd makes it for any timer that is persistent
	before := s.Tree(scenes.TheHost...)
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Wants("1.1.0")
	s.Must(updater, "update")
	s.Serves("1.1.0")
	rows := s.RowsOf("1.1.0")

	s.Must(updater, "uninstall", "--with-agent")
	s.Unchanged(before, s.Tree(scenes.TheHost...), "/var/lib/teleport")
	s.OnlyAgentsDataIsLeft()
	if now := s.RowsOf("1.1.0"); now < rows {
		t.Errorf("of %d rows of the agent's database %d are left", rows, now)
	}
	if load, active := s.Show("teleport", "LoadState"), s.Show("teleport", "ActiveState"); load != "not-found" || active != "inactive" {
		t.Errorf("the agent's unit is %s, %s", load, active)
	}
	s.StatusIs("disabled")
	s.Must(updater, "uninstall", "--with-agent") // again
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

func TestUninstallLeavesTheAgentAsItRuns(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Wants("1.1.0")
	s.Must(updater, "update")
	s.Serves("1.1.0")
	unit, before := s.Read(unitFile), s.Seen()
	asked := s.AskAllTheTime("http://127.0.0.1:3000/readyz")

	if out := s.Must(updater, "uninstall"); !strings.Contains(out, "Stays: "+programs+"/1.1.0, because a process executes from it; the next boot removes it.") {
		t.Errorf("it says\n%s", out)
	}
	if got := before.Became(s.Seen()); got != scenes.InPeace {
		t.Errorf("the agent was %s", got)
	}
	if n, failed := asked(); len(failed) > 0 {
		t.Errorf("of %d requests %d failed: %v", n, len(failed), failed)
	}
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
	s.OnlyAgentsDataIsLeft()
	if s.Exists("/etc/tmpfiles.d/teleport-update-uninstalled.conf") {
		t.Error("the rule that removes versions at a boot is left")
	}
	if r := s.Try("systemctl", "list-unit-files", "--no-legend", "teleport-update*"); r.Stdout != "" {
		t.Errorf("units of the updater are left:\n%s", r.Stdout)
	}
}

// A version that an uninstall left for the processes that executed it is enabled again: no boot removes it.
func TestAnEnableAfterAnUninstallOutlivesTheNextBoot(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Must(updater, "uninstall")
	if !s.Exists("/etc/tmpfiles.d/teleport-update-uninstalled.conf") {
		t.Fatal("nothing is to be removed at the next boot: the test shows nothing")
	}
	s.Enable("--health-window", "1s")
	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Serves("1.0.0")
	s.Must(updater, "verify")
}
