package decision

import (
	"strings"
	"testing"
	"time"
)

func TestEachConditionIsExplained(t *testing.T) {
	for _, c := range Checks {
		if !strings.HasSuffix(helps[c.Type], ".") {
			t.Errorf("nobody says what helps against %s: %q", c.Type, helps[c.Type])
		}
	}
	if len(helps) != len(Checks) {
		t.Errorf("%d of %d conditions are explained", len(helps), len(Checks))
	}
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	host := []Condition{{Type: TimerOff, Message: "it is masked"}, {Type: AgentDown, Since: &since, Message: "it is down"}}
	if said := Explain(AgentDown, host); !strings.HasSuffix(said, "\non this host, since 2026-03-01T12:00:00Z: it is down\n") {
		t.Errorf("a condition of the host:\n%s", said)
	}
	if said := Explain(Unsigned, host); !strings.HasSuffix(said, "\nthis host does not have the condition\n") {
		t.Errorf("a condition of another host:\n%s", said)
	}
}
