package rollout

import (
	"fmt"
	"strings"
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

// A host of a plan or a canary that names another group is told what that group is
// told. It holds no place in flight any more, and is counted where it is.
func TestAHostThatNamesAnotherGroupIsWithdrawn(t *testing.T) {
	w := newWorld(t, regular("{name: a, "+everyDay+", max_in_flight: 1}", "{name: b, days: ['*'], start_hour: 20}"))
	w.add("a", 3, "17.2.0")
	w.begin("Mon 10:00")
	w.tick()
	w.now = w.now.Add(10 * time.Second)
	w.tick()
	first, second := w.inOrder("a")[0], w.inOrder("a")[1]
	w.poll(first)
	w.wantTold("a", second, "17.2.1")
	w.fleet.named(first).Group = "b"
	w.now = w.now.Add(10 * time.Second)
	w.tick()
	if a := w.find(second); !a.AutoUpdate {
		t.Error("the place of the host is not given to the next one")
	}
	if g := w.group("a"); g.TimedOutCount != 0 || g.FailedCount != 0 {
		t.Errorf("it is counted as %d timed out and %d failed", g.TimedOutCount, g.FailedCount)
	}
	w = newWorld(t, regular("{name: a, "+everyDay+", canary_count: 1}", "{name: b, days: ['*'], start_hour: 20}"))
	w.add("a", 3, "17.2.0")
	w.begin("Mon 10:00")
	w.tick()
	w.fleet.named(w.canaryNames("a")[0]).Group = "b"
	w.tick()
	w.want("canary?Stalled unstarted")
}

// A window by hand adds hours and takes none: what is left of the day's own window
// after it is opened again, and a window that somebody has closed stays closed.
func TestAWindowByHandTakesNothingFromTheDaysOwn(t *testing.T) {
	agents := "strategy: time-based, maintenance_window_duration: 2h, " + regular("{name: a, "+everyDay+"}")
	for _, tc := range []struct {
		started string
		closes  string // for good
	}{
		{"Mon 05:00", "Mon 12:00"}, // long before: 05 to 07, and 10 to 12
		{"Mon 08:30", "Mon 12:00"}, // into it
		{"Mon 08:00", "Mon 12:00"}, // up to it
		{"Mon 13:00", "Mon 15:00"}, // after it
	} {
		w := newWorld(t, agents)
		w.add("a", 3, "17.2.0")
		w.begin(tc.started)
		w.order(Order{Verb: StartUpdate, Groups: []string{"a"}})
		end := when(tc.closes)
		w.pass(end.Sub(w.now) - time.Minute)
		w.want("active")
		w.wantTold("a", "a-0", "17.2.1 now")
		w.pass(time.Minute)
		w.want("done")
		w.pass(when("Tue 10:00").Sub(w.now) - time.Minute)
		w.want("done")
		w.pass(time.Minute)
		w.want("active")
	}
	w := newWorld(t, agents)
	w.add("a", 3, "17.2.0")
	w.begin("Mon 08:30")
	w.order(Order{Verb: StartUpdate, Groups: []string{"a"}})
	w.pass(100 * time.Minute) // 10:10
	w.order(Order{Verb: MarkDone, Groups: []string{"a"}})
	w.pass(110 * time.Minute)
	w.want("done")
}

// What a rollback of the whole rollout has halted is named with a command once no
// group is rolled back any more.
func TestGroupsThatARollbackHaltedAreNamed(t *testing.T) {
	w := newWorld(t, regular("{name: a, "+everyDay+"}", "{name: b, "+everyDay+"}"))
	w.add("a", 3, "17.2.0")
	w.begin("Mon 10:00")
	w.tick()
	w.order(Order{Verb: Rollback})
	w.want("rolledback unstarted!rollout_rolled_back")
	w.order(Order{Verb: MarkDone, Groups: []string{"a"}})
	o := Look(w.scene())
	if o.Word != "halted" || !strings.HasSuffix(said(o.Commands), "rollout retry b (lets it start in its turn); rollout done b "+
		"(ends it: tells its hosts, none of which reports, to update to 17.2.1)") {
		t.Errorf("%s: %s %s", o.Word, o.Sentence, said(o.Commands))
	}
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
