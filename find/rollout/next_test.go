package rollout

import (
	"fmt"
	"testing"
	"time"
)

// A critical version that goes through the regular groups has no windows that could
// close: under time-based, too, a group is done when its hosts are updated, with a
// plan and without, and hosts that come later are told to update.
func TestACriticalVersionIsDoneUnderTimeBased(t *testing.T) {
	for _, more := range []string{"", ", max_in_flight: 20%"} {
		w := newWorld(t, "strategy: time-based, maintenance_window_duration: 2h, "+regular("{name: eu, days: ['*'], start_hour: 4"+more+"}", "{name: us, days: ['*'], start_hour: 6}"))
		w.version.Spec.Agents.Schedule = Critical
		names := append(w.add("eu", 10, "17.2.0"), w.add("us", 10, "17.2.0")...)
		w.begin("Mon 15:00")
		w.tick()
		w.want("active active")
		for range 40 {
			for _, name := range names {
				if w.poll(name).AutoUpdate {
					w.update(name, "17.2.1")
				}
			}
			w.pass(10 * time.Minute)
		}
		w.want("done done")
		w.pass(48 * time.Hour)
		w.want("done done")
		if o := Look(w.scene()); o.Word != "done" {
			t.Errorf("%s: %s", o.Word, o.Sentence)
		}
		w.wantTold("eu", "late", "17.2.1 now")
	}
}

// A plan of which all hosts are done does not expire, whatever keeps the group from
// being done.
func TestAPlanThatHasDoneWhatItCouldDoesNotExpire(t *testing.T) {
	w := newWorld(t, regular("{name: a, "+everyDay+", max_in_flight: 100%}"))
	names := w.add("a", 10, "17.2.0")
	w.begin("Mon 10:00")
	w.tick()
	w.now = w.now.Add(10 * time.Second)
	w.tick()
	for _, name := range names {
		w.poll(name)
		w.update(name, "17.2.1")
	}
	for i := range 10 {
		w.join(fmt.Sprintf("late-%d", i), "a", "17.2.0")
	}
	w.pass(48 * time.Hour)
	w.want("active?Stalled")
	w.order(Order{Verb: MarkDone, Groups: []string{"a"}})
	w.wantTold("a", "late-1", "17.2.1 now")
}

// Ticks at one moment, each with counts of its own, come to an end.
func TestTicksAtOneMomentComeToAnEnd(t *testing.T) {
	w := newWorld(t, "strategy: time-based, maintenance_window_duration: 24h, "+regular("{name: a, "+everyDay+", max_in_flight: 1}"))
	w.add("a", 3, "17.2.0")
	w.begin("Mon 10:00")
	for w.now.Before(when("Wed 12:00")) {
		for again := 0; ; again++ {
			before := w.rollout
			w.tick()
			if w.rollout == before {
				break
			}
			if again == 3 {
				t.Fatalf("%s: a fourth tick changes something: %+v", w.now, w.steps)
			}
		}
		w.now = w.now.Add(20 * time.Minute)
		w.alive()
	}
}

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
