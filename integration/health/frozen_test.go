//go:build hosts

package health

import (
	"strings"
	"testing"
	"time"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// Nobody can prove a version on an agent whose processes a person keeps from running. With systemd 257 its jobs end as
// "frozen"; 252 ends the freeze, which is the person's wish. An update is refused, and nothing is held against the version.
func TestAnAgentThatIsFrozenIsLeftAlone(t *testing.T) {
	for _, suite := range []string{"trixie", host.DefaultSuite} {
		for _, unit := range []string{"teleport", "other.slice"} {
			t.Run(suite+", "+unit, func(t *testing.T) {
				s := &scene{scenes.On(t, host.Options{Suite: suite})}
				s.Sound("1.0.0")
				s.Sound("1.1.0")
				s.RunsOn("1.0.0", "--health-window", "1s")
				s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\nSlice=other.slice\n")
				s.Must("sh", "-c", "systemctl daemon-reload && systemctl restart teleport")
				s.Serves("1.0.0")
				s.Must("systemctl", "freeze", unit)
				run := s.Show("teleport", "InvocationID")
				s.Wants("1.1.0")
				u := s.Try(updater, "update")
				if u.Code != 1 || !strings.Contains(u.Stderr, "`systemctl thaw "+unit+"`") {
					t.Errorf("the update ended with %d, and does not name what helps:\n%s", u.Code, u.Stderr)
				}
				r := s.Status()
				if r.FailedVersion != nil || s.Show("teleport", "InvocationID") != run {
					t.Errorf("the version is blamed (%v), or the agent was restarted", r.FailedVersion)
				}
				if restart := s.Try(updater, "update", "--restart"); restart.Code != 1 {
					t.Errorf("the restart ended with %d:\n%s", restart.Code, restart.Stderr)
				}
				if !strings.Contains(r.Explanation, "`systemctl thaw "+unit+"`") {
					t.Errorf("status says %s: %s", r.State, r.Explanation)
				}
				s.Must("systemctl", "thaw", unit)
				s.Must(updater, "update")
				s.Serves("1.1.0")
			})
		}
	}
}

// A version that would crash is kept still by SIGSTOP from its first moment on, for longer than the health window. The watch waits until
// the version runs again, and then sees it crash.
func TestAVersionThatStoodStillIsNotHealthy(t *testing.T) {
	s := newScene(t)
	unit := release.Unit{NoReload: true, RestartDelay: 5 * time.Second}
	s.Release(release.Spec{Version: "1.0.0", Unit: unit})
	s.Release(release.Spec{Version: "1.1.0", Unit: unit, Variant: stamp.CrashLoops})
	s.RunsOn("1.0.0", "--health-window", "3s")
	s.Write("/root/still.sh", `#!/bin/sh
until readlink /proc/$1/exe | grep -q bin/teleport; do sleep 0.02; done
readlink /proc/$1/exe | grep -q /1.1.0/ || exit 0
kill -STOP $1
`)
	s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\nExecStartPost=/bin/sh /root/still.sh $MAINPID\n")
	s.Must("systemctl", "daemon-reload")
	s.Wants("1.1.0")
	update := s.Background(host.Command{Args: []string{updater, "update"}})
	s.Watched("1.1.0")
	time.Sleep(8 * time.Second)
	if phase := s.Phase(); phase != "switched" {
		t.Errorf("a version that stood still was judged: the journal says %q", phase)
	}
	s.Must("rm", "/etc/systemd/system/teleport.service.d/50-test.conf")
	s.Must("sh", "-c", "systemctl daemon-reload; kill -CONT $(cat /run/teleport.pid)")
	r, err := update.Wait()
	s.Check(err)
	if r.Code != 1 || !strings.Contains(r.Stderr, "was not healthy") {
		t.Errorf("the update ended with %d:\n%s", r.Code, r.Stderr)
	}
	s.Serves("1.0.0")
}
