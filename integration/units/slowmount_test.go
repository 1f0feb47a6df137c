//go:build hosts

package units

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// systemd begins no reload and no start of an agent that comes after a mount which hangs. That is found before the agent is touched,
// whether the change would reload or restart it, and is the host's fault and no version's.
func TestAMountThatHangsIsFoundBeforeTheAgentIsTouched(t *testing.T) {
	s := newScene(t)
	s.Release(release.Spec{Version: "1.0.0", Schema: 1})
	s.Release(release.Spec{Version: "1.1.0", Schema: 1})
	s.Release(release.Spec{Version: "1.2.0", Schema: 2})
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Proven()
	const mount = "mnt-slow.mount"
	s.Write("/sbin/mount.slowfs", "#!/bin/sh\nexec sleep infinity\n")
	s.Must("chmod", "755", "/sbin/mount.slowfs")
	s.Write("/etc/systemd/system/"+mount, "[Mount]\nWhat=slow\nWhere=/mnt/slow\nType=slowfs\nTimeoutSec=infinity\n")
	s.drops("[Unit]\nAfter="+mount+"\n", true)
	hangs := func() {
		t.Helper()
		s.Must("systemctl", "start", "--no-block", mount)
		host.Wait(t, patience, func() error {
			if got := s.Show(mount, "SubState"); got != "mounting" {
				return fmt.Errorf("the mount is %s", got)
			}
			return nil
		})
	}
	stays := func(name, v string, args ...string) {
		t.Helper()
		before := s.Seen()
		for _, more := range [][]string{{"--dry-run"}, nil} {
			s.Fails(1, mount, append(append([]string{updater}, args...), more...)...)
		}
		s.Tick()
		if got := before.Became(s.Seen()); got != scenes.InPeace {
			t.Errorf("%s: the agent was %s", name, got)
		}
		s.Linked(v)
		s.Closed()
		r := s.Status()
		says := func(c decision.Condition) bool { return strings.Contains(c.Message, mount) }
		if r.FailedVersion != nil || !slices.ContainsFunc(r.Conditions, says) {
			t.Errorf("%s: status is %s: %+v; failed: %s", name, r.State, r.Conditions, scenes.Text(r.FailedVersion))
		}
		if got := s.Show(mount, "SubState"); got != "mounting" {
			t.Errorf("%s: the mount is %s: the test shows nothing", name, got)
		}
	}

	hangs()
	s.Wants("1.1.0")
	stays("an update that reloads", "1.0.0", "update", "--now")
	s.Must("systemctl", "stop", mount)
	s.Updates("1.1.0")
	s.Updates("1.2.0")
	hangs()
	stays("a rollback that restarts", "1.2.0", "rollback")
	s.Must("systemctl", "stop", mount)
	s.Must(updater, "rollback")
	s.Serves("1.1.0")
}
