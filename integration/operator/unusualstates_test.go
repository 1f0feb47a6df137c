//go:build hosts

package operator

import (
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/integration/cluster"
)

// On a host whose timer starts nothing each command says so, and with what the timer comes
// back; nothing claims to repair what an administrator wants.
func TestAHostWhoseTimerIsMaskedHearsOfIt(t *testing.T) {
	const masked, unmask = "updater's timer is masked, and no run starts by itself", "`systemctl unmask teleport-update.timer`"
	const off = masked + ": " + unmask
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Proven()
	// Each line on one line, whatever the width of the terminal.
	on := func(command string) string {
		t.Helper()
		return s.Try("sh", "-c", "TERM=dumb script -qec 'stty cols 500; "+updater+" "+command+"' /dev/null").Stdout
	}
	says := func(command string, want ...string) {
		t.Helper()
		out := on(command)
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("%s lacks %q:\n%s", command, text, out)
			}
		}
		for _, untrue := range []string{"looks every ten minutes", "repairing"} {
			if strings.Contains(out, untrue) {
				t.Errorf("%s says %q:\n%s", command, untrue, out)
			}
		}
	}
	if out := on("update"); !strings.Contains(out, "looks every ten minutes") {
		t.Errorf("with its timer the host says\n%s", out)
	}
	s.Must("systemctl", "mask", "--now", "teleport-update.timer")
	says("update", "Teleport 1.0.0 is installed. The agent runs it.", off)
	says("status", "Setting:", masked, unmask)
	says("verify", "ok   timer: the "+off)
	says("pin", "The host stays on it until `teleport-update unpin`.", off)
	s.Wants("1.1.0")
	says("status --offline", "pinned")
	s.Must(updater, "unpin")
	says("status", "the cluster wants 1.1.0", masked, unmask)
	says("unpin", "Teleport 1.0.0 is installed. The agent runs it.", off)
	says("update --now", "Teleport 1.1.0 is installed. The agent runs it.", off)
	says("rollback", "Teleport 1.0.0 is installed. The agent runs it.", "The host is held", off)
	s.Must("systemctl", "unmask", "teleport-update.timer")
	s.Must("systemctl", "stop", "teleport-update.timer")
	says("status", "the updater's timer is stopped")
	s.Must("systemctl", "enable", "--now", "teleport-update.timer")

	// What is advised for an agent that differs from its unit does not end the hold.
	s.Write("/etc/systemd/system/teleport.service.d/60-a.conf", "[Service]\nEnvironment=A=1\n")
	s.Must("systemctl", "daemon-reload")
	says("verify", "restart pending", "`teleport-update update --restart` restarts it")
	before := s.PID()
	s.Must(updater, "update", "--restart")
	if s.PID() == before {
		t.Error("the agent was not restarted")
	}
	s.StatusIs("held")
	s.Serves("1.0.0")

	s.Must("systemctl", "stop", "teleport")
	says("disable", "The agent is enabled at boot and does not run: `systemctl start teleport` starts it.", "Updates are off: `teleport-update enable` turns them on.")
	s.Must("systemctl", "start", "teleport")

	// A shell that the agent serves would end with it.
	s.Fails(1, "this shell is served by the agent", "sh", "-c",
		"echo $$ >/sys/fs/cgroup/system.slice/teleport.service/cgroup.procs; "+updater+" uninstall --with-agent --dry-run")
	s.Must(updater, "uninstall", "--with-agent", "--dry-run")
}

// A run that cannot reach find does what needs none, and has not failed.
func TestARunWithoutFindRepairsAllTheSame(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Wants("1.1.0")
	s.KilledInMidWatch("1.1.0")
	s.Check(s.Reboot(t.Context()))
	if got := s.Phase(); got != "restored" {
		t.Errorf("the journal says %q: the test shows nothing", got)
	}
	s.Breaks(cluster.FindDown)
	s.Must("rm", linkDir+"/teleport")
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick ends with %d:\n%s", code, s.Log(""))
	}
	if got := strings.TrimSpace(s.Must("readlink", linkDir+"/teleport")); got != programs+"/1.0.0/bin/teleport" {
		t.Errorf("the link leads to %q", got)
	}
	if got := s.Phase(); got != "" {
		t.Errorf("the journal is open, and says %q", got)
	}
	s.StatusIs("waiting")
	if r := s.Status(); r.Conditions[0].Type != decision.FindUnreachable {
		t.Errorf("status: %+v", r.Conditions)
	}
}
