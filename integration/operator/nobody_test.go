//go:build hosts

package operator

import (
	"strings"
	"testing"

	"teleport-update/integration/scenes"
)

// Somebody who is not root is told so by each command, which has said nothing of the host that it could not
// see, and ends with 1: whether the data folder is closed to others or not.
func TestWhoIsNotRootIsToldSo(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	commands := []string{"status", "status --offline", "status --format json", "status --format openmetrics", "history", "verify", "disable", "enable",
		"pin", "pin 1.0.0", "unpin", "update", "update --now", "update --dry-run", "update --restart", "rollback", "rollback --dry-run", "uninstall --yes"}
	asks := func(how string) {
		t.Helper()
		before := s.Tree(scenes.TheHost...)
		for _, command := range commands {
			args := append([]string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", updater}, strings.Fields(command)...)
			r := s.Try(args...)
			if r.Code != 1 || r.Stdout != "" || !strings.Contains(r.Stderr, "permission denied") || !strings.HasSuffix(strings.TrimSpace(r.Stderr), "run the command as root") {
				t.Errorf("%s: `%s` ends with %d and says\n%s%s", how, command, r.Code, r.Stdout, r.Stderr)
			}
		}
		s.Unchanged(before, s.Tree(scenes.TheHost...), scenes.AgentState)
	}
	s.RunsOn("1.0.0", "--health-window", "1s")
	asks("a closed data folder")
	s.Must("chmod", "755", "/var/lib/teleport")
	asks("a data folder that others can read")
	s.Must(updater, "disable")
	asks("updates are disabled")
}
