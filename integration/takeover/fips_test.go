//go:build hosts

package takeover

import (
	"fmt"
	"strings"
	"testing"

	"teleport-update/find"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/internal/version"
)

// commandLine is what the agent that serves was started with.
func (s *scene) commandLine() string {
	s.T.Helper()
	return s.Try("sh", "-c", "tr '\\0' ' ' </proc/$(cat /run/teleport.pid)/cmdline").Stdout
}

// started waits for an agent of a version that was started so.
func (s *scene) started(v, with string) {
	s.T.Helper()
	host.Wait(s.T, patience, func() error {
		if exe := s.Try("sh", "-c", "readlink /proc/$(cat /run/teleport.pid)/exe").Stdout; strings.TrimSpace(exe) != s.Executable(v) {
			return fmt.Errorf("the agent executes %q", exe)
		}
		if command := s.commandLine(); !strings.Contains(command, with) {
			return fmt.Errorf("the agent was started as %q; want %q in it", command, with)
		}
		return nil
	})
}

// An agent that was reloaded goes on with the arguments of before: what runs proves
// nothing about the next start.
func TestAFIPSAgentStaysOne(t *testing.T) {
	s := newScene(t)
	wants := func(v string) { s.Set(find.Answer{Version: v, Edition: version.FIPS, AutoUpdate: true}) }
	for _, v := range []string{"1.0.0", "1.1.0"} {
		s.Release(release.Spec{Version: v, Edition: version.FIPS})
	}
	wants("1.0.0")
	s.Enable("--health-window", "1s")
	s.Must("systemctl", "enable", "--now", "teleport")
	s.started("1.0.0", " --fips")
	wants("1.1.0")
	s.Must(updater, "update")
	s.started("1.1.0", " --fips")
	s.Must("systemctl", "restart", "teleport")
	s.started("1.1.0", " --fips")

	const dropIn, pending = "/etc/systemd/system/teleport.service.d/test.conf", "BAD  restart pending"
	without := func(text string) {
		t.Helper()
		if out := s.Must(updater, "verify"); strings.Contains(out, pending) {
			t.Errorf("%s: verify says\n%s", text, out)
		}
	}
	without("nothing differs")
	s.Write(dropIn, "[Service]\nExecStart=\nExecStart=/usr/local/bin/teleport start --config /etc/teleport.yaml --pid-file=/run/teleport.pid\n")
	s.Must("systemctl", "daemon-reload")
	r := s.Try(updater, "verify")
	if r.Code != 1 || !strings.Contains(r.Stdout, "the next start loses --fips") {
		t.Errorf("verify ends with %d and says\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if out := s.Must(updater, "status", "--format", "json"); !strings.Contains(out, `"restart_pending"`) || !strings.Contains(out, "the next start loses --fips") {
		t.Errorf("status says\n%s", out)
	}

	s.Write(dropIn, "[Service]\nEnvironment=A=1\n")
	s.Must("systemctl", "daemon-reload")
	if r := s.Try(updater, "verify"); r.Code != 1 || !strings.Contains(r.Stdout, "the next start changes the variable A") {
		t.Errorf("verify ends with %d and says\n%s", r.Code, r.Stdout)
	}
	s.Fails(2, "--restart is for a person's command", "env", "TELEPORT_UPDATE_SCHEDULED=1", updater, "update", "--restart")
	before := s.PID()
	s.Fails(4, "the next start changes the variable A", updater, "update", "--now")
	if now := s.PID(); now != before {
		t.Errorf("the agent was %s and is %s, though nobody asked for a restart", before, now)
	}
	s.Must(updater, "update", "--restart")
	if now := s.PID(); now == before {
		t.Error("the agent was not restarted")
	}
	s.started("1.1.0", " --fips")
	without("after the restart")
	before = s.PID()
	s.Must(updater, "update", "--now", "--restart")
	if now := s.PID(); now != before {
		t.Error("an agent that runs as its unit says was restarted")
	}
}
