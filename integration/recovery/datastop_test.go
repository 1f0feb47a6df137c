//go:build hosts

package recovery

import (
	"strings"
	"testing"
	"time"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// goWithTheStop are data that a stop of the agent removes.
var goWithTheStop = map[string]struct{ dir, dropIn string }{
	"a runtime directory":                 {"/run/teleport", "RuntimeDirectory=teleport"},
	"a runtime directory by another name": {"/var/run/teleport/agent", "RuntimeDirectory=teleport/agent"},
	"a runtime directory behind a link":   {"/srv/agent", "RuntimeDirectory=teleport\nExecStartPre=/bin/ln -sfn /run/teleport /srv/agent"},
	"a temporary folder of the unit's":    {"/var/tmp/agent", "PrivateTmp=yes"},
	"a folder that a command removes":     {"/var/lib/teleport", "ExecStopPost=/bin/rm -rf /var/lib/teleport/proc"},
}

// The agent's data go with each stop. There is nothing to restore then: a version that fails is left, and the
// agent runs.
func TestDataThatGoWithTheStop(t *testing.T) {
	for name, c := range goWithTheStop {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.Release(release.Spec{Version: "1.0.0", Schema: 1})
			s.Release(release.Spec{Version: "1.1.0", Schema: 2})
			s.Release(release.Spec{Version: "1.2.0", Schema: 3, Variant: stamp.MigratesThenExits})
			s.Write("/etc/teleport.yaml", "teleport:\n  diag_addr: 127.0.0.1:3000\n  data_dir: "+c.dir+"\n")
			s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\n"+c.dropIn+"\n")
			s.RunsOn("1.0.0")
			s.Grows(3)
			s.Updates("1.1.0")
			s.Wants("1.2.0")
			s.Fails(1, "was not healthy and was rolled back", updater, "update", "--now")
			s.Closed()
			s.Serves("1.1.0")
			s.Grows(1)
			s.Must("systemctl", "restart", "teleport")
			s.Serves("1.1.0")
		})
	}
}

// The agent's data are on a file system that is empty after each boot. The host is booted in the middle of a transaction: there is
// nothing to go back to but the program, and the version before makes its data anew.
func TestDataThatGoWithABoot(t *testing.T) {
	for name, c := range map[string]struct{ dropIn, tmpfiles string }{
		"a runtime directory that stays until then": {"RuntimeDirectory=agent\nRuntimeDirectoryPreserve=yes", ""},
		"a folder of systemd-tmpfiles":              {"", "d /run/agent 0700"},
		"a folder that the agent makes":             {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.Write("/etc/teleport.yaml", "teleport:\n  diag_addr: 127.0.0.1:3000\n  data_dir: /run/agent\n")
			s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\n"+c.dropIn+"\n")
			s.Write("/etc/tmpfiles.d/agent.conf", c.tmpfiles+"\n")
			s.Must("systemd-tmpfiles", "--create", "agent.conf")
			s.migratingTo("1.1.0")
			s.cutInMidWatch("1.1.0")
			s.Wants("1.0.0")
			s.Tick()
			s.Closed()
			s.Serves("1.0.0")
			s.Grows(1)
			if got := s.Status().State; got != "idle" {
				t.Errorf("status says %s", got)
			}
		})
	}
}

// Sessions that the agent drains outlive a stop by the unit's own settings. A change that would have to wait for
// them with the agent down is refused while it serves.
func TestProcessesThatAStopLeavesAreSeenBefore(t *testing.T) {
	s := newScene(t)
	s.Release(release.Spec{Version: "1.0.0", Schema: 1, Variant: stamp.Drains, DrainFor: time.Hour})
	s.Release(release.Spec{Version: "1.1.0", Schema: 2, Variant: stamp.Drains, DrainFor: time.Hour})
	s.RunsOn("1.0.0", "--health-window", "1s")
	for _, settings := range []string{"KillMode=process", "KillMode=none", "SendSIGKILL=no"} {
		s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\nTimeoutStopSec=2s\n"+settings+"\n")
		s.Must("systemctl", "daemon-reload")
		if settings == "KillMode=process" {
			s.Updates("1.1.0")
		}
		before := s.Seen()
		said := s.Fails(1, "", updater, "rollback")
		if name, _, _ := strings.Cut(settings, "="); !strings.Contains(said, name) {
			t.Errorf("%s: it says\n%s", settings, said)
		}
		if got := before.Became(s.Seen()); got != scenes.InPeace {
			t.Errorf("%s: the agent was %s", settings, got)
		}
		s.Closed()
	}
	s.Serves("1.1.0")
}

// The data of a host in the middle of a transaction are put under a new system, which knows no unit of the agent's.
// A command closes the transaction, with the database, and enable has the host well again.
func TestATransactionIsClosedUnderANewSystem(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Schema: 2})
	s.RunsOn("1.0.0")
	rows := s.Live()
	s.Wants("1.1.0")
	s.KilledInMidWatch("1.1.0")
	s.Must("sh", "-ec", "systemctl stop teleport; cd /usr/local; rm -rf bin/teleport bin/tsh bin/tctl bin/tbot lib/systemd/system/teleport*; rm -f /etc/systemd/system/*.wants/teleport*; systemctl daemon-reload")
	if got := s.Show("teleport", "LoadState"); got != "not-found" {
		t.Fatalf("the unit is %s: this test shows nothing", got)
	}
	s.Wants("1.0.0")
	s.Try(updater, "update")
	s.Closed()
	if d := s.Settled(scenes.LiveFile); d.Schema != 1 || d.Rows < rows.Rows || d.Integrity != "ok" {
		t.Errorf("the database holds %v, and held %v", d, rows)
	}
	s.Enable()
	s.Must("systemctl", "enable", "--now", "teleport")
	s.Serves("1.0.0")
}
