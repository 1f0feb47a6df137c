//go:build hosts

package operator

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"teleport-update/installer/decision"
)

// A host boots with a clock that is nine hours ahead, as one that keeps local time does; a run of the timer ends
// well, the clock is set, and then runs cannot be started. What the first run wrote hides none of that.
func TestAClockThatWasSetBackHidesNoRunThatFails(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Proven()
	const ticks = "/run/teleport-update/ticks.json"
	var written map[string]any
	s.Check(json.Unmarshal([]byte(s.Read(ticks)), &written))
	for _, name := range []string{"booted", "ended", "good"} {
		text, _ := written[name].(string)
		at, err := time.Parse(time.RFC3339, text)
		s.Check(err)
		written[name] = at.Add(9 * time.Hour).Format(time.RFC3339)
	}
	data, err := json.Marshal(written)
	s.Check(err)
	s.Write(ticks, string(data))
	s.StatusIs("idle")
	s.Write("/etc/systemd/system/teleport-update.service.d/95-other.conf", "[Service]\nNoExecPaths=/\n")
	s.Must("systemctl", "daemon-reload")
	s.Try("systemctl", "start", "teleport-update.service")
	s.StatusIs("failing")
	r := s.Status()
	if !slices.ContainsFunc(r.Conditions, func(c decision.Condition) bool { return c.Type == decision.RunNotMade }) {
		t.Errorf("status: %+v", r.Conditions)
	}
	if r.Updater.LastRun == nil || r.Updater.LastRun.After(time.Now().Add(time.Minute)) {
		t.Errorf("the last run ended at %v", r.Updater.LastRun)
	}
	s.Must("rm", "/etc/systemd/system/teleport-update.service.d/95-other.conf")
	s.Must("systemctl", "daemon-reload")
	if code := s.Tick(); code != 0 {
		t.Errorf("the run ends with %d", code)
	}
	s.StatusIs("idle")
}
