//go:build hosts

package operator

import (
	"strings"
	"testing"

	"teleport-update/integration/cluster"
)

// A fleet tool that retries runs the same enable several times at once.
func TestEnablesAtOnceAllSucceed(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Wants("1.0.0")
	out := s.Must("sh", "-c", "for n in 1 2 3 4; do (if "+updater+" enable --proxy "+cluster.ProxyAddress+" --template '"+cluster.TemplateURL+
		"' --health-window 1s >/root/enable-$n 2>&1; then echo ended well; else tail -n 1 /root/enable-$n; fi) & done; wait")
	if got := strings.Count(out, "ended well"); got != 4 {
		t.Errorf("%d of 4 ended well:\n%s", got, out)
	}
	s.Linked("1.0.0")
	s.Must("systemctl", "enable", "--now", "teleport")
	s.Serves("1.0.0")
}
