package decision

import (
	"strings"
	"testing"

	"teleport-update/systemd"
)

// systemd skips the start of a timer whose condition does not hold: the advice to start it names that first.
func TestAnAdviceToStartTheTimerNamesWhatSkipsTheStart(t *testing.T) {
	for state, conditions := range map[string][]systemd.Condition{
		"enabled":  {{Type: "ConditionPathExists", Parameter: "/nonexistent"}},
		"disabled": {{Type: "ConditionPathExists", Parameter: "/nonexistent"}},
		"static":   {{Type: "ConditionPathExists", Parameter: "/"}},
	} {
		u := systemd.Unit{Name: "teleport-update.timer", LoadState: "loaded", ActiveState: "inactive", UnitFileState: state}
		u.Ties.Conditions = conditions
		off, stopped := timerOf(t.Context(), u)
		if told := strings.Contains(off+stopped, "ConditionPathExists=/nonexistent"); told != (state != "static") {
			t.Errorf("%s: %q", state, off+stopped)
		}
	}
}
