package rollout

import (
	"testing"
	"time"
)

func rowsOfTimeBasedGroups(row rowTest) {
	row("unstarted/done (time-based)", "inside [start_hour, + maintenance_window_duration), past midnight too", "active, window_end set",
		func(t *testing.T, in func(string) *world) {
			agents := "strategy: time-based, maintenance_window_duration: 4h, " + regular("{name: us, days: [Mon, Sat], start_hour: 22}", "{name: eu, days: ['*'], start_hour: 4}")
			for moment, want := range map[string]string{
				"Mon 21:59": "unstarted unstarted", "Mon 22:00": "active unstarted", "Tue 01:59": "active unstarted", "Tue 02:00": "unstarted unstarted",
				"Tue 22:30": "unstarted unstarted", "Sun 01:30": "active unstarted", "Wed 04:00": "unstarted active", "Wed 08:00": "unstarted unstarted",
			} {
				w := in(agents)
				w.add("us", 3, "17.2.0")
				w.begin(moment)
				w.tick()
				w.want(want)
				if g := w.group("us"); g.State == Active && g.WindowEnd.Hour() != 2 {
					t.Errorf("%s: the window ends %s", moment, g.WindowEnd)
				}
			}
			w := in("strategy: time-based, " + regular("{name: us, days: [Mon], start_hour: 22}"))
			w.begin("Mon 22:59")
			w.tick()
			w.want("active") // for an hour where nothing else is said
			if end := w.group("us").WindowEnd; !end.Equal(when("Mon 23:00")) {
				t.Errorf("the window ends %s", end)
			}
		})

	row("active (time-based)", "now ≥ window_end", "done",
		func(t *testing.T, in func(string) *world) {
			w := in("strategy: time-based, maintenance_window_duration: 24h, " + regular("{name: us, days: ['*'], start_hour: 22}", "{name: eu, days: [Mon], start_hour: 4}"))
			w.add("us", 3, "17.2.0")
			w.add("eu", 3, "17.2.0")
			w.begin("Mon 23:59")
			w.tick()
			w.want("active active")
			w.pass(4 * time.Hour)
			w.want("active active")
			w.pass(time.Minute)
			w.want("active done") // the one window follows the other
			w.pass(20 * time.Hour)
			w.want("active done")
			for w.now.Weekday() != time.Monday || w.now.Hour() != 4 {
				w.pass(10 * time.Minute)
			}
			w.want("active active") // again, a week later
			w.order(Order{Verb: MarkDone, Groups: []string{"eu"}})
			w.pass(10 * time.Hour)
			w.want("active done") // once in a window
		})
}
