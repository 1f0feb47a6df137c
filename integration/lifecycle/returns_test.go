//go:build hosts

package lifecycle

import (
	"strings"
	"testing"

	"teleport-update/integration/scenes"
)

// Two servers behind one name that want different versions in turn: a host that went there and came
// back within the hour is not taken there again by the timer, and says so. Another version is free, and
// so is this one once the hour is over.
func TestAHostThatCameBackIsNotTakenThereAgain(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0", "1.2.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	tick := func(wants, runs string) {
		t.Helper()
		s.Wants(wants)
		if code := s.Tick(); code != 0 {
			t.Errorf("a tick that finds %s wanted ends with %d", wants, code)
		}
		s.Serves(runs)
	}
	tick("1.1.0", "1.1.0")
	tick("1.0.0", "1.0.0")
	starts := s.Starts("1.0.0")
	for range 2 {
		tick("1.1.0", "1.0.0")
		if r := s.Status(); r.State != "waiting" || !strings.Contains(r.Explanation, "1.1.0") {
			t.Errorf("status says %s: %s", r.State, r.Explanation)
		}
		tick("1.0.0", "1.0.0")
	}
	if got := s.Starts("1.0.0"); got != starts {
		t.Errorf("the agent was started %d times", got-starts)
	}
	tick("1.2.0", "1.2.0")
	tick("1.0.0", "1.0.0")
	tick("1.2.0", "1.0.0")
	s.Must("sed", "-i", `/^  returned:/,/since:/s/since: .*/since: 2020-01-01T00:00:00Z/`, scenes.Store+"/updates.yaml")
	tick("1.2.0", "1.2.0")
}
