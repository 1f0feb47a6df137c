package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func testOrders(t *testing.T, in func(string) *world) {
	three := regular("{name: a, "+everyDay+"}", "{name: b, "+everyDay+", canary_count: 2}", "{name: c, "+everyDay+", max_in_flight: 1}")
	begun := func(agents string) *world {
		w := in(agents)
		for _, g := range []string{"a", "b", "c"} {
			w.add(g, 5, "17.2.0")
		}
		w.begin("Mon 13:00") // in no window
		w.tick()
		return w
	}
	order := func(v Verb, groups ...string) Order {
		return Order{Verb: v, Groups: groups, Who: "uid 0", Why: "a test"}
	}
	forced := func(groups ...string) Order { return Order{Verb: StartUpdate, Groups: groups, Force: true} }

	t.Run("rollout start", func(t *testing.T) {
		w := begun(three)
		if got := w.refused(order(StartUpdate, "b")); !strings.Contains(got, "group b: group a comes before it, and is not done; --force") {
			t.Error(got)
		}
		w.order(order(StartUpdate, "a"))
		w.want("active unstarted unstarted")
		w.order(order(MarkDone, "a"))
		w.order(order(StartUpdate, "b"))
		w.want("done canary unstarted")
		if got := w.refused(order(StartUpdate, "b")); !strings.Contains(got, "waits for its canaries: --force") {
			t.Error(got)
		}
		w.order(forced("b"))
		w.want("done active unstarted")
		w.order(forced("c"))
		w.want("done active active")
		if plan := w.group("c").Plan; plan == nil || plan.HostCount != 5 {
			t.Errorf("the plan is %+v", plan)
		}
		if got := w.refused(order(StartUpdate, "c")); !strings.Contains(got, "group c is active: rollout start does nothing with it") {
			t.Error(got)
		}
		w.counted = false
		if got := w.refused(order(StartUpdate, "a")); !strings.Contains(got, "group a is done") {
			t.Error(got)
		}
	})
	t.Run("rollout start before the counts are complete", func(t *testing.T) {
		w := begun(three)
		w.counted = false
		if got := w.refused(order(StartUpdate, "a")); !strings.Contains(got, "25 minutes") || !strings.Contains(got, "--force") {
			t.Error(got)
		}
		if got := w.refused(forced("c")); !strings.Contains(got, "25 minutes") {
			t.Error(got)
		}
		w.order(forced("a"))
		w.want("active unstarted unstarted")
		w.pass(2 * time.Hour)
		w.want("active unstarted unstarted") // nobody knows of whom 90 % are
		w.counted = true
		w.pass(time.Minute)
		if n := w.group("a").InitialCount; n != 5 {
			t.Errorf("initial_count is %d", n)
		}
		w.want("active unstarted unstarted")
	})
	t.Run("rollout start, time-based", func(t *testing.T) {
		w := begun("strategy: time-based, maintenance_window_duration: 2h, " + regular("{name: a, "+everyDay+"}"))
		w.order(order(StartUpdate, "a"))
		if g := w.group("a"); g.State != Active || !g.WindowEnd.Equal(when("Mon 15:00")) {
			t.Errorf("%+v", g)
		}
		w.pass(2 * time.Hour)
		w.want("done")
		w.order(order(StartUpdate, "a"))
		w.want("active")
	})
	t.Run("rollout done", func(t *testing.T) {
		w := begun(three)
		w.order(order(MarkDone, "a", "b", "b"))
		w.want("done done unstarted")
		w.wantTold("b", "", "17.2.1 now")
		if g := w.group("b"); !g.DoneTime.Equal(w.now) || g.LastUpdateReason != ManualDone {
			t.Errorf("%+v", g)
		}
		if got := w.refused(order(MarkDone, "c", "a")); !strings.Contains(got, "group a is done: rollout done does nothing with it") {
			t.Error(got)
		}
		w.want("done done unstarted") // all of an order or nothing
		if got := w.refused(order(MarkDone, "d")); !strings.Contains(got, "no group d (there are a, b, c)") {
			t.Error(got)
		}
		if got := w.refused(order(MarkDone)); !strings.Contains(got, "rollout done: which groups?") {
			t.Error(got)
		}
	})
	t.Run("rollout done of a halted group", func(t *testing.T) {
		w := begun(three)
		w.order(order(MarkDone, "a"))
		w.order(order(StartUpdate, "b"))
		w.fail(w.canaryNames("b")[0])
		w.tick()
		w.want("done canary!canary_failed unstarted")
		for _, v := range []Verb{StartUpdate} {
			if got := w.refused(order(v, "b")); !strings.Contains(got, "group b is halted (canary_failed): retry it, mark it done or roll it back") {
				t.Error(got)
			}
		}
		w.order(order(MarkDone, "b"))
		w.want("done done unstarted")
	})
	t.Run("rollback", func(t *testing.T) {
		w := begun(three)
		w.order(order(MarkDone, "a"))
		if got := w.refused(order(Rollback, "b")); !strings.Contains(got, "group b is unstarted: rollout back does nothing with it") {
			t.Error(got)
		}
		w.order(order(Rollback, "a"))
		w.want("rolledback unstarted unstarted")
		w.wantTold("a", "", "17.2.0 now")
		if w.rollout.Status.State != RolledBack {
			t.Errorf("the rollout is %s", w.rollout.Status.State)
		}
		w.pass(30 * 24 * time.Hour)
		w.want("rolledback unstarted unstarted")                            // those that come after it wait
		w.order(Order{Verb: Rollback, Groups: []string{"a"}, To: "17.1.0"}) // and further
		w.wantTold("a", "", "17.1.0 now")
		w.order(order(StartUpdate, "a"))
		w.want("active unstarted unstarted")
		w.order(order(Rollback, "a"))
		w.order(order(MarkDone, "a"))
		w.order(order(StartUpdate, "b"))
		w.want("done canary unstarted")
		picked := w.canaryNames("b")[0]
		w.update(picked, "17.2.1")
		w.order(order(Rollback, "b"))
		if got := short(w.find(picked)); got != "17.2.0 now" {
			t.Errorf("the canary is told %s", got)
		}
	})
	t.Run("rollback of the whole rollout", func(t *testing.T) {
		w := begun("strategy: time-based, " + regular("{name: a, "+everyDay+"}", "{name: b, "+everyDay+"}", "{name: c, days: [Tue], start_hour: 4}"))
		if got := w.refused(order(Rollback)); !strings.Contains(got, "no group has started") {
			t.Error(got)
		}
		w.order(order(StartUpdate, "a", "b"))
		w.order(order(Rollback))
		w.want("rolledback rolledback unstarted!rollout_rolled_back")
		w.pass(14 * 24 * time.Hour)
		w.want("rolledback rolledback unstarted!rollout_rolled_back")
		w.wantTold("c", "", "17.2.0") // nobody has ordered its hosts anywhere
		w.order(order(Retry, "c"))
		w.want("rolledback rolledback unstarted")
	})
	t.Run("rollback without another version", func(t *testing.T) {
		w := in(three)
		w.version.Spec.Agents.StartVersion = ""
		w.tick()
		w.order(forced("a"))
		if got := w.refused(order(Rollback, "a")); !strings.Contains(got, "no other version to go back to") {
			t.Error(got)
		}
	})
	t.Run("retry", func(t *testing.T) {
		w := begun(three)
		w.order(order(MarkDone, "a"))
		w.order(order(StartUpdate, "b"))
		first := w.canaryNames("b")
		w.poll(first[0])
		w.fail(first[0])
		w.tick()
		w.want("done canary!canary_failed unstarted")
		w.pass(time.Hour)
		w.counted = false
		if got := w.refused(order(Retry, "b")); !strings.Contains(got, "25 minutes") {
			t.Error(got)
		}
		w.counted = true
		w.order(order(Retry, "b"))
		w.want("done canary unstarted")
		w.tick()
		w.want("done canary unstarted") // what failed before does not count
		if again := w.canaryNames("b"); slices.Equal(first, again) && len(again) == 2 {
			t.Logf("the lot fell on the same canaries %q", again)
		}
		for _, h := range w.canaryNames("b") {
			w.fail(h)
		}
		w.tick()
		w.want("done canary!canary_failed unstarted")
		if got := w.refused(order(Retry, "a")); !strings.Contains(got, "group a is done, not halted: there is nothing to retry") {
			t.Error(got)
		}
	})
	t.Run("retry of a plan", func(t *testing.T) {
		w := begun(regular("{name: c, " + everyDay + ", max_in_flight: 2}"))
		w.order(order(StartUpdate, "c"))
		w.pass(10 * time.Second)
		failed := w.inOrder("c")[0]
		w.poll(failed)
		w.update(w.inOrder("c")[1], "17.2.1")
		w.fail(failed)
		w.tick()
		w.want("active!hosts_failed")
		before := *w.group("c").Plan
		w.order(order(Retry, "c")) // at the same moment
		if plan := w.group("c").Plan; plan.HostCount != before.HostCount-1 || !plan.StartTime.After(before.StartTime) || plan.LastActiveHostIndex != -1 {
			t.Errorf("the plan is %+v after %+v", plan, before)
		}
		w.pass(time.Minute)
		w.want("active")
	})
	t.Run("retry of a plan that cannot be read", func(t *testing.T) {
		w := begun(regular("{name: c, " + everyDay + ", max_in_flight: 2}"))
		w.order(order(StartUpdate, "c"))
		w.pass(10 * time.Second)
		if got := w.refused(order(Retry, "c")); !strings.Contains(got, "nothing to retry") {
			t.Error(got)
		}
		hosts := w.inOrder("c")
		delete(w.plans, "c")
		for _, h := range hosts {
			if w.find(h).AutoUpdate {
				t.Errorf("%s is told to update without a plan", h)
			}
		}
		w.tick()
		w.want("active?PlanBroken")
		w.pass(time.Hour)
		w.want("active?PlanBroken")
		w.order(order(Retry, "c"))
		w.pass(10 * time.Second)
		w.want("active")
		if plan := w.group("c").Plan; plan.LastActiveHostIndex != 1 {
			t.Errorf("the plan is %+v", plan)
		}
	})
	t.Run("reset", func(t *testing.T) {
		w := begun(three)
		w.order(order(MarkDone, "a"))
		w.configure(regular("{name: a, days: [Fri], start_hour: 4}"))
		w.order(order(Reset))
		w.want("unstarted")
		if g := w.group("a"); g.ConfigStartHour != 4 || w.rollout.Spec.TargetVersion != "17.2.1" {
			t.Errorf("%+v", w.rollout)
		}
	})
	t.Run("what nothing can be ordered of", func(t *testing.T) {
		w := in(three)
		for name, tc := range map[string]struct {
			v     *Version
			order Order
			want  string
		}{
			"no version":          {nil, order(Reset), "no version is set"},
			"no rollout":          {w.version, order(MarkDone, "a"), "the rollout of version 17.2.1 has not begun"},
			"no such order":       {w.version, Order{Verb: "undo", Groups: []string{"a"}}, `there is no order "undo"`},
			"groups of immediate": {versionWith("", Immediate), order(StartUpdate, "a"), "which has no groups"},
		} {
			if name == "no such order" {
				w.tick()
			}
			r := w.rollout
			if name == "no rollout" {
				r = nil
			}
			n := Counts{Complete: true}
			if _, err := tc.order.Apply(w.config, tc.v, r, n, w.now); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v; want %s", name, err, tc.want)
			}
		}
	})
}

// A host that goes on saying that it was told, over a retry, has the time of the new
// trial, and no more: a group does not wait for it for ever.
func TestAHostThatWasToldBeforeARetryTimesOut(t *testing.T) {
	for _, more := range []string{", max_timeout_before_halt: 0", ", max_timeout_before_halt: 0, max_in_flight: 100%", ", max_timeout_before_halt: 0, max_in_flight: 1", ", canary_count: 4"} {
		w := newWorld(t, regular("{name: prod, "+everyDay+", timeout_seconds: 900"+more+"}"))
		names := w.add("prod", 4, "17.2.0")
		w.begin("Mon 10:00")
		var retriedAt time.Time
		for w.now.Before(when("Mon 14:00")) {
			for _, name := range names { // each says what it is told, and does nothing
				w.poll(name)
			}
			w.tick()
			if g := w.group("prod"); g.Halted != nil && retriedAt.IsZero() {
				w.now = w.now.Add(20 * time.Second)
				w.order(Order{Verb: Retry, Groups: []string{"prod"}})
				retriedAt = w.now
				if at := w.group("prod").RetryTime; !at.Equal(w.now) {
					t.Errorf("%s: the retry is noted at %s", more, at)
				}
			}
			w.now = w.now.Add(5 * time.Minute)
		}
		if g := w.group("prod"); g.Halted == nil || g.Halted.Since.Sub(retriedAt) < 15*time.Minute || g.Halted.Since.Sub(retriedAt) > 30*time.Minute {
			t.Errorf("%s: retried at %s, and at the end the group is %s: %+v", more, retriedAt, w.states(), g.Halted)
		}
	}
}

// A retry reaches hosts at once: who is told to update hears when it was, canaries
// that wait for the end of a back-off are not drawn again, and the order says what it
// waits for.
func TestARetryReachesTheHostsOnWhichTheVersionFailed(t *testing.T) {
	w := newWorld(t, regular("{name: dev, "+everyDay+", canary_count: 2}"))
	w.add("dev", 6, "17.2.0")
	w.begin("Mon 10:00")
	w.tick()
	failed := w.canaryNames("dev")
	for _, name := range failed {
		if a := w.poll(name); !a.RetryFailed.IsZero() {
			t.Errorf("before the retry a host hears of one at %s", a.RetryFailed)
		}
		w.report(name, func(b *Heartbeat) {
			b.Outcome = &Outcome{Target: "17.2.1", State: OutcomeRolledBack, Error: "it died", Time: w.now, BacksOffUntil: w.now.Add(time.Hour)}
		})
	}
	w.tick()
	w.want("canary!canary_failed")
	w.now = w.now.Add(time.Minute)
	w.order(Order{Verb: Retry, Groups: []string{"dev"}})
	w.want("canary")
	if step := w.steps[len(w.steps)-1]; !strings.Contains(step.Message, "at their next poll") {
		t.Errorf("the retry says %q", step.Message)
	}
	for _, name := range w.canaryNames("dev") {
		for _, f := range failed {
			if name == f {
				t.Errorf("canary %s is drawn again, and waits for an hour", name)
			}
		}
		if a := w.find(name); !a.RetryFailed.Equal(w.now) {
			t.Errorf("canary %s hears of a retry at %s", name, a.RetryFailed)
		}
	}
	if a := w.find(failed[0]); !a.RetryFailed.IsZero() {
		t.Error("a host that is not told to update hears of a retry")
	}
	for _, name := range w.canaryNames("dev") {
		w.update(name, "17.2.1")
	}
	w.tick()
	w.want("active")
	if a := w.find(failed[0]); !a.AutoUpdate || a.RetryFailed.IsZero() {
		t.Errorf("a host on which the version failed is told %+v", a)
	}
	w.order(Order{Verb: Rollback, Groups: []string{"dev"}})
	if a := w.find(failed[0]); !a.RetryFailed.IsZero() {
		t.Error("a host that is sent back hears of a retry")
	}
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
