//go:build hosts

package recovery

import (
	"fmt"
	"strings"
	"testing"

	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// policy has the system's bus refuse root a method of systemd, as SELinux or polkit may: nothing but a try shows it.
const policy = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><policy user="root"><deny send_destination="org.freedesktop.systemd1" send_interface="org.freedesktop.systemd1.Manager" send_member="%s"/></policy></busconfig>
`

// A refusal that nobody can foresee ends the change with the agent as it was. If systemd has stopped the agent and refuses to start
// it, no program can help: status says so, and the next run that may start it does.
func TestARefusalThatOnlyATryShowsEndsTheChange(t *testing.T) {
	s := newScene(t)
	s.Release(release.Spec{Version: "1.0.0", Schema: 1})
	s.Release(release.Spec{Version: "1.1.0", Schema: 2})
	s.Release(release.Spec{Version: "1.2.0", Schema: 2})
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Updates("1.1.0")
	refusing := func(method string, args ...string) string {
		s.T.Helper()
		s.Write("/etc/dbus-1/system.d/refuse.conf", fmt.Sprintf(policy, method))
		s.Must("systemctl", "reload", "dbus")
		// Root asks the bus if the private socket, which knows no policy, is not there.
		s.Must("mv", "/run/systemd/private", "/run/systemd/private.away")
		defer func() {
			s.Must("mv", "/run/systemd/private.away", "/run/systemd/private")
			s.Must("rm", "/etc/dbus-1/system.d/refuse.conf")
			s.Must("systemctl", "reload", "dbus")
		}()
		r := s.Try(args...)
		if open := s.Exists(scenes.Store + "/journal.json"); r.Code == 0 || (r.Code == 4) != open {
			t.Errorf("%s: the command ends with %d, and a transaction is open: %t\n%s", method, r.Code, open, r.Stderr)
		}
		return r.Stderr
	}
	s.Wants("1.2.0")
	for _, method := range []string{"StartTransientUnit", "Reload", "ReloadUnit", "RestartUnit", "StopUnit"} {
		command := []string{updater, "update", "--now"}
		switch method {
		case "RestartUnit":
			s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\nExecReload=\nExecReload=/bin/false\n")
			s.Must("systemctl", "daemon-reload")
		case "StopUnit":
			command = []string{updater, "rollback"} // over another schema
			s.Must("rm", "/etc/systemd/system/teleport.service.d/50-test.conf")
			s.Must("systemctl", "daemon-reload")
		}
		before := s.Seen()
		said := refusing(method, command...)
		if !strings.Contains(said, method) && !strings.Contains(said, "denied") {
			t.Errorf("%s: the command says\n%s", method, said)
		}
		if got := before.Became(s.Seen()); got != scenes.InPeace {
			t.Errorf("%s: the agent was %s:\n%s", method, got, said)
		}
		// What is undone needs systemd, too, to read its files again: the timer's next run closes it.
		s.Wants("1.1.0")
		s.Tick()
		s.Closed()
		s.Serves("1.1.0")
		if got := before.Became(s.Seen()); got != scenes.InPeace {
			t.Errorf("%s: after a run of the timer the agent was %s", method, got)
		}
		s.Wants("1.2.0")
		s.Must(updater, "verify")
		if backsOff := s.Status().Failing; backsOff != nil {
			t.Errorf("%s: the version is blamed: %+v", method, backsOff)
		}
	}
	// Where systemd refuses every start, it refuses the canary first, and the agent is not touched.
	before := s.Seen()
	said := refusing("StartUnit", updater, "rollback")
	if got := before.Became(s.Seen()); got != scenes.InPeace || !strings.Contains(said, "StartUnit") {
		t.Errorf("StartUnit: the agent was %s:\n%s", got, said)
	}
	s.Must(updater, "verify")
}
