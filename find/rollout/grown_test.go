package rollout

import (
	"testing"
	"time"
)

// Limits of a group without a plan are parts of all of its hosts: one that hosts join
// after its start is not halted by the first failure, "1 of 1".
func TestAGroupThatHostsJoinIsHaltedByItsPart(t *testing.T) {
	for _, tc := range []struct {
		failed int
		want   string
	}{{2, "active"}, {3, "active!hosts_failed"}} {
		w := newWorld(t, regular("{name: a, days: ['*'], start_hour: 10, max_failed_before_halt: 10%}"))
		w.join("first", "a", "17.2.0")
		w.begin("Mon 10:00")
		w.tick()
		names := w.add("a", 19, "17.2.0")
		w.pass(2 * time.Minute)
		for _, name := range names[:tc.failed] {
			w.poll(name)
			w.fail(name)
		}
		w.tick()
		if got := w.states(); got != tc.want {
			t.Errorf("%d of 20 hosts failed at a limit of 10 %%: %s; want %s", tc.failed, got, tc.want)
		}
	}
}

// A plan has its day from when it began: canaries that took longer leave it its own.
func TestAPlanHasADayOfItsOwn(t *testing.T) {
	w := newWorld(t, regular("{name: a, days: ['*'], start_hour: 10, canary_count: 1, max_in_flight: 1}"))
	w.add("a", 3, "17.2.0")
	w.begin("Mon 10:00")
	w.tick()
	w.pass(25 * time.Hour)
	for _, name := range w.canaryNames("a") {
		w.poll(name)
		w.update(name, "17.2.1")
	}
	w.pass(time.Minute)
	w.want("active")
	w.pass(23 * time.Hour)
	if w.group("a").Halted != nil {
		t.Errorf("before the plan is a day old: %s", w.states())
	}
	w.pass(2 * time.Hour)
	if halted := w.group("a").Halted; halted == nil || halted.Reason != Expired {
		t.Errorf("after its day: %s", w.states())
	}
}
