package rollout

import (
	"testing"
	"time"
)

// A critical version has the schedule critical with its hours and waits; without one, the groups of the regular
// schedule go one after the other, with canaries and limits, at any hour and without a wait.
func TestTheScheduleOfACriticalVersion(t *testing.T) {
	const first = "{name: a, days: ['*'], start_hour: 4, canary_count: 1}"
	const second = "{name: b, days: ['*'], start_hour: 4, wait_hours: 24, max_in_flight: 1}"
	t.Run("the regular groups in order, at any hour", func(t *testing.T) {
		w := newWorld(t, regular(first, second))
		hosts := w.add("a", 3, "17.2.0")
		w.add("b", 3, "17.2.0")
		w.version = versionWith("", Critical)
		w.begin("Sun 17:30")
		w.tick()
		w.want("canary unstarted")
		w.update(w.canaryNames("a")[0], "17.2.1")
		w.pass(time.Minute)
		w.want("active unstarted") // b waits for a, at any hour
		for _, h := range hosts {
			w.update(h, "17.2.1")
		}
		w.tick()
		w.want("done active") // and not for 24 hours
		w.pass(time.Minute)
		told := 0
		for _, h := range w.inOrder("b") {
			if w.find(h).AutoUpdate {
				told++
			}
		}
		if told != 1 {
			t.Errorf("%d hosts of b are told to update; want one at a time", told)
		}
	})
	t.Run("a schedule of its own, in its hours", func(t *testing.T) {
		w := newWorld(t, "schedules: {regular: ["+first+", "+second+"], critical: [{name: x, days: ['*'], start_hour: 18}, {name: y, days: ['*'], start_hour: 18, wait_hours: 1}]}")
		hosts := w.add("x", 3, "17.2.0")
		w.add("y", 3, "17.2.0")
		w.version = versionWith("", Critical)
		w.begin("Sun 17:30")
		w.tick()
		w.want("unstarted unstarted")
		w.pass(30 * time.Minute)
		w.want("active unstarted")
		w.wantTold("x", "x-0", "17.2.1 now")
		w.wantTold("y", "y-0", "17.2.0")
		w.wantTold("a", "", "17.2.0") // who is in no group of it is in the last one
		for _, h := range hosts {
			w.update(h, "17.2.1")
		}
		w.tick()
		w.want("done unstarted")
		w.pass(time.Hour)
		w.want("done unstarted") // at 19:00 its hour is over
		w.pass(23 * time.Hour)
		w.want("done active")
	})
}
