//go:build hosts

package recovery

import (
	"testing"

	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// What the real systemd would refuse, or would not begin, is found before the agent is touched, and
// what goes down with the agent comes back.
func TestWhatSystemdWillNotDoIsFoundBeforeTheAgentIsTouched(t *testing.T) {
	s := newScene(t)
	s.Release(release.Spec{Version: "1.0.0", Schema: 1})
	s.Release(release.Spec{Version: "1.1.0", Schema: 2})
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Updates("1.1.0")
	s.Write("/etc/systemd/system/slow.service", "[Service]\nType=oneshot\nExecStart=/bin/sleep infinity\nTimeoutStartSec=infinity\n")
	s.Write("/etc/systemd/system/keeper.service", "[Unit]\nUpholds=teleport.service\n[Service]\nExecStart=/bin/sleep infinity\n")
	const dropIn = "/etc/systemd/system/teleport.service.d/50-test.conf"
	for _, c := range []struct{ name, dropIn, begin, end, says string }{
		{"a refused stop", "[Unit]\nRefuseManualStop=yes\n", "true", "true", "RefuseManualStop="},
		{"a refused start", "[Unit]\nRefuseManualStart=yes\n", "true", "true", "RefuseManualStart="},
		{"a condition", "[Unit]\nConditionPathExists=/nowhere\n", "true", "true", "ConditionPathExists=/nowhere"},
		{"an assertion", "[Unit]\nAssertPathExists=!/etc\n", "true", "true", "AssertPathExists=!/etc"},
		{"a unit that activates", "[Unit]\nAfter=slow.service\n", "systemctl start --no-block slow", "systemctl stop slow", "slow.service"},
		{"a unit that upholds it", "[Unit]\n", "systemctl start keeper", "systemctl stop keeper", "keeper.service"},
	} {
		s.Write(dropIn, c.dropIn)
		s.Must("systemctl", "daemon-reload")
		s.Must("sh", "-c", c.begin)
		before := s.Seen()
		s.Fails(1, c.says, updater, "rollback")
		if got := before.Became(s.Seen()); got != scenes.InPeace {
			t.Errorf("%s: the agent was %s", c.name, got)
		}
		s.Closed()
		s.Must("sh", "-c", c.end)
		s.Must("rm", dropIn)
		s.Must("systemctl", "daemon-reload")
	}

	for _, tie := range []string{"Requires", "BindsTo", "PartOf"} {
		s.Write("/etc/systemd/system/with-"+tie+".service", "[Unit]\n"+tie+"=teleport.service\nAfter=teleport.service\n[Service]\nExecStart=/bin/sleep infinity\n")
		s.Must("systemctl", "start", "with-"+tie)
	}
	s.Must(updater, "rollback")
	s.Serves("1.0.0")
	for _, tie := range []string{"Requires", "BindsTo", "PartOf"} {
		if got := s.Show("with-"+tie, "ActiveState"); got != "active" {
			t.Errorf("the unit with %s= is %s after the rollback", tie, got)
		}
	}
}
