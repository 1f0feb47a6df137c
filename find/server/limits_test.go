package server

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
)

// Who offers a server to others bounds their configurations: five groups, four days. What was applied before stays.
func TestAServerTakesConfigurationsWithinItsLimits(t *testing.T) {
	groups := func(n, wait int, days ...string) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("{name: g%d, days: [%s], start_hour: %d, wait_hours: %d}", i, cmp.Or(strings.Join(days, ", "), "'*'"), 4+i, wait))
		}
		return enabledGroups(strings.Join(list, ", "))
	}
	timeBased := func(text string) string {
		return strings.Replace(text, "schedules:", "strategy: time-based, maintenance_window_duration: 1h, schedules:", 1)
	}
	for _, tc := range []struct{ name, config, refused string }{
		{"five groups on one day", groups(5, 0), ""},
		{"six groups", groups(6, 0), "spec.agents.schedules.regular: there are 6 groups, and this server takes no more than 5 in a schedule"},
		{"four groups on four days", groups(4, 20), ""},
		{"two groups with a weekend between them", groups(2, 20, "Mon", "Tue", "Wed", "Thu"), ""},
		{"three groups with days between them", groups(3, 30), "spec.agents.schedules.regular: from the start of the first group to that of the last one it takes 98 hours, and this server takes no more than 4 days"},
		{"five groups of windows", timeBased(groups(5, 0)), ""},
		{"six groups of windows", timeBased(groups(6, 0)), "there are 6 groups"},
		{"no groups", enabled, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newStoreWorld(t)
			w.write(groups(7, 0)) // of before, or by another server
			w.options.Limits = rollout.Limits{Groups: 5, Days: 4}
			s := w.open()
			for _, dry := range []bool{true, false} {
				_, err := s.Apply(t.Context(), parseAll(t, tc.config), answers.ApplyOptions{DryRun: dry})
				if said := fmt.Sprint(err); (err == nil) != (tc.refused == "") || !strings.Contains(said, tc.refused) && err != nil {
					t.Errorf("dry run %t: %v; want %q", dry, err, tc.refused)
				}
			}
			if there := s.Resources().Config.Spec.Agents.Schedules.Regular; tc.refused != "" && len(there) != 7 {
				t.Errorf("what was refused is in force: %+v", there)
			}
		})
	}
}
