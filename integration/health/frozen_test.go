//go:build hosts

package health

import (
	"strings"
	"testing"

	"teleport-update/integration/host"
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
