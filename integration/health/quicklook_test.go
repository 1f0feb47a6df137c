//go:build hosts

package health

import (
	"testing"
	"time"
)

// Runs of the timer that find nothing changed look no further, and whatever changes is
// seen by the next one.
func TestARunAfterNothingChangedIsShort(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.RunsOn("1.0.0")
	const ticks = "/run/teleport-update/ticks.json" // which only a whole run replaces
	whole := func() bool {
		t.Helper()
		before := s.Must("stat", "-c", "%i %z", ticks)
		if code := s.Tick(); code != 0 {
			t.Errorf("the run ends with %d", code)
		}
		return s.Must("stat", "-c", "%i %z", ticks) != before
	}
	settled := func(after string) {
		t.Helper()
		// A version counts as unproven until its agent was healthy through the health window.
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
			if !whole() {
				return
			}
		}
		t.Fatalf("after %s no run is short", after)
	}
	s.Tick()
	settled("the first runs")
	for name, change := range map[string]func(){
		"a restart of the agent":   func() { s.Must("systemctl", "restart", "teleport") },
		"a crash of the agent":     func() { s.Must("systemctl", "kill", "-s", "KILL", "teleport"); s.Serves("1.0.0") },
		"a change of updates.yaml": func() { s.Must(updater, "pin"); s.Must(updater, "unpin") },
		"a link that is gone":      func() { s.Must("rm", "/usr/local/bin/tsh") },
		"a drop-in of the agent's": func() {
			s.Write("/etc/systemd/system/teleport.service.d/x.conf", "[Service]\n")
			s.Must("systemctl", "daemon-reload")
		},
		"a file of the version's":      func() { s.Must("chmod", "o+w", s.Must("readlink", "-f", "/usr/local/bin/tctl")) },
		"a configuration of the agent": func() { s.Write("/etc/teleport.yaml", "stand_in: {}\n# another\n") },
	} {
		change()
		if !whole() {
			t.Errorf("after %s the run is no whole one", name)
		}
		settled(name)
	}
	s.Linked("1.0.0")
	if r := s.Status(); r.State != "idle" {
		t.Errorf("status: %s, %s", r.State, r.Explanation)
	}
	s.Sound("1.1.0")
	s.Wants("1.1.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the run with another version ends with %d", code)
	}
	s.Serves("1.1.0")
}
