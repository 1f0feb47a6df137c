package rollout

import (
	"strings"
	"testing"
	"time"
)

func rowsOfActiveGroups(row rowTest) {
	row("active (halt-on-error)", "up_to_date ≥ thr × max(initial, present), plan exhausted, not halted", "done",
		func(t *testing.T, in func(string) *world) {
			for _, tc := range []struct {
				more                  string
				gone, updated, failed int
				want                  string
			}{
				{"", 0, 90, 0, "done"},
				{"", 0, 89, 0, "active"},
				{"", 10, 90, 0, "done"},
				{"", 10, 89, 0, "active?Stalled"},
				{"", 10, 81, 0, "active?Stalled"}, // 90 % of 90 % are not 90 %
				{"", 10, 80, 0, "active"},
				{"", 11, 89, 0, "active?Stalled"},
				{", max_timeout_before_halt: 20%", 20, 64, 0, "active?Stalled"},
				{"", 0, 90, 10, "done"}, // a plain group tolerates them
				{", max_timeout_before_halt: 20%", 0, 80, 0, "done"},
				{", max_timeout_before_halt: 20%", 0, 79, 0, "active"},
				{", max_failed_before_halt: 5", 0, 85, 5, "done"},
				{", max_failed_before_halt: 5", 0, 84, 5, "active"},
				{", max_timeout_before_halt: 0", 0, 99, 0, "active"},
				{", max_in_flight: 100%", 0, 100, 0, "done"},
				{", max_in_flight: 100%", 0, 90, 0, "done"}, // the others are silent, and as many may time out
				{", max_in_flight: 100%", 0, 89, 0, "active"},
				{", max_in_flight: 50", 0, 99, 0, "active"},
			} {
				w := in(regular("{name: a, " + everyDay + tc.more + "}"))
				hosts := w.add("a", 100, "17.2.0")
				w.begin("Mon 10:00")
				w.tick()
				w.now = w.now.Add(10 * time.Second)
				w.tick()
				for _, h := range hosts[:tc.updated] {
					w.update(h, "17.2.1")
				}
				for _, h := range hosts[100-tc.failed-tc.gone : 100-tc.gone] {
					w.poll(h)
					w.fail(h)
				}
				for _, h := range hosts[100-tc.gone:] {
					w.fleet.named(h).LastSeen = w.now.Add(-time.Hour)
				}
				w.tick()
				if got := w.states(); got != tc.want {
					t.Errorf("%+v: %s", tc, got)
				}
			}
		})

	row("active", "initial_count = 0", "done when the hour has passed",
		func(t *testing.T, in func(string) *world) {
			w := in(regular("{name: a, "+everyDay+"}", "{name: b, days: ['*'], start_hour: 11, max_in_flight: 1}"))
			w.begin("Mon 10:20")
			w.tick()
			w.want("active unstarted")
			w.add("a", 3, "17.2.0") // who come later
			w.pass(39 * time.Minute)
			w.want("active unstarted")
			w.pass(time.Minute)
			w.want("done active")
			w.wantTold("a", "a-0", "17.2.1 now")
			w.pass(time.Hour)
			w.want("done done")
			// By hand there is no hour of the schedule.
			w = in(regular("{name: a, " + everyDay + "}"))
			w.begin("Mon 13:50")
			w.order(Order{Verb: StartUpdate, Groups: []string{"a"}})
			w.pass(59 * time.Minute)
			w.want("active")
			w.pass(time.Minute)
			w.want("done")
		})

	row("active", "up to date ≥ thr × present, but below thr × initial", "condition Stalled: never done by itself; names rollout done",
		func(t *testing.T, in func(string) *world) {
			w := in(regular("{name: a, "+everyDay+"}", "{name: b, "+everyDay+"}"))
			hosts := w.add("a", 10, "17.2.0")
			w.begin("Mon 10:00")
			w.tick()
			for _, h := range hosts {
				w.update(h, "17.2.1")
			}
			w.now = w.now.Add(26 * time.Minute)
			w.alive(hosts[:2]...)
			w.tick()
			w.want("active?Stalled unstarted")
			since := w.group("a").Conditions[0].Since
			w.pass(10*24*time.Hour, hosts[:2]...)
			w.want("active?Stalled unstarted")
			if c := w.group("a").Conditions[0]; !c.Since.Equal(since) || !strings.Contains(movedBy(Stalled, Active), "rollout done") {
				t.Errorf("%+v, and %s", c, movedBy(Stalled, Active))
			}
			w.pass(time.Second) // they are back
			w.want("active?Stalled unstarted")
			w.pass(time.Minute) // and settled
			w.want("done active")
		})

	row("active, guarded", "failed or timed out above its limit", "halted; the plan's index freezes; dependents stay blocked",
		func(t *testing.T, in func(string) *world) {
			for _, tc := range []struct {
				more             string
				failed, timedOut int
				want             string
			}{
				{", max_failed_before_halt: 0", 0, 0, "active"},
				{", max_failed_before_halt: 0", 1, 0, "active!hosts_failed"},
				{", max_in_flight: 10", 1, 0, "active!hosts_failed"}, // 0 where it is not given
				{", max_failed_before_halt: 10", 1, 0, "active"},
				{", max_failed_before_halt: 10", 2, 0, "active!hosts_failed"},
				{", max_failed_before_halt: 10, max_in_flight: 10", 1, 0, "active"},
				{", max_failed_before_halt: 10, max_in_flight: 10", 2, 0, "active!hosts_failed"},
				{", timeout_seconds: 1800", 0, 1, "active"}, // 10 % where it is not given
				{", timeout_seconds: 1800", 0, 2, "active!hosts_timed_out"},
				{", timeout_seconds: 1800, max_in_flight: 10", 0, 2, "active!hosts_timed_out"},
				{", timeout_seconds: 1800, max_timeout_before_halt: 20", 0, 2, "active"},
				{"", 1, 0, "active"}, // not guarded: 90 % may come to the target still
				{"", 2, 0, "active!hosts_failed"},
			} {
				w := in(regular("{name: a, "+everyDay+tc.more+"}", "{name: b, "+everyDay+"}"))
				w.add("a", 10, "17.2.0")
				w.begin("Mon 10:00")
				w.tick()
				w.pass(10 * time.Second)
				hosts := w.inOrder("a")
				if hosts == nil {
					hosts = w.all()
				}
				for _, h := range hosts[:tc.failed] {
					w.poll(h)
					w.fail(h)
					w.fail(h) // again
				}
				for _, h := range hosts[tc.failed : tc.failed+tc.timedOut] {
					w.poll(h)
				}
				w.pass(31 * time.Minute)
				if got := w.states(); got != tc.want+" unstarted" {
					t.Errorf("%+v: %s", tc, got)
				}
				g := *w.group("a")
				if g.FailedCount != tc.failed && strings.Contains(tc.more, "max") || g.Halted != nil && !strings.Contains(g.Halted.Message, hosts[0]) {
					t.Errorf("%+v: %+v, %+v", tc, g, g.Halted)
				}
			}

			w := in(regular("{name: a, "+everyDay+", max_in_flight: 2, max_failed_before_halt: 10}", "{name: b, "+everyDay+"}"))
			w.add("a", 10, "17.2.0")
			w.begin("Mon 10:00")
			w.tick()
			w.pass(10 * time.Second)
			for _, h := range w.inOrder("a")[:2] {
				w.poll(h)
				w.fail(h)
			}
			w.tick()
			w.want("active!hosts_failed unstarted")
			w.pass(48 * time.Hour)
			if index := w.group("a").Plan.LastActiveHostIndex; index != 1 {
				t.Errorf("the index has grown to %d", index)
			}
			w.want("active!hosts_failed unstarted")
		})

	row("active, with a plan", "24 h since start and not done", "halted (expired): nobody new is admitted, those already admitted keep being told",
		func(t *testing.T, in func(string) *world) {
			w := in(regular("{name: a, " + everyDay + ", max_in_flight: 2, max_timeout_before_halt: 100%}"))
			w.add("a", 10, "17.2.0")
			w.begin("Mon 10:00")
			w.tick()
			w.pass(24*time.Hour - time.Second)
			w.want("active")
			w.pass(time.Second)
			w.want("active!expired")
			w.pass(24 * time.Hour)
			for i, h := range w.inOrder("a") {
				if got := w.find(h); got.Version != "17.2.1" || got.AutoUpdate != (i < 2) {
					t.Errorf("host %d is told %s", i, short(got))
				}
			}
		})

	row("active, without a plan", "24 h since start and not done", "Stalled, and goes on",
		func(t *testing.T, in func(string) *world) {
			w := in(regular("{name: a, " + everyDay + "}"))
			hosts := w.add("a", 10, "17.2.0")
			w.begin("Mon 10:00")
			w.tick()
			w.pass(24*time.Hour - time.Second)
			w.want("active")
			w.pass(time.Second)
			w.want("active?Stalled")
			for _, h := range hosts {
				if got := short(w.poll(h)); got != "17.2.1 now" {
					t.Errorf("%s is told %s", h, got)
				}
				w.update(h, "17.2.1")
			}
			w.tick()
			w.want("done")
		})
}

// Whether a group is done does not depend on the order in which the server has lost
// sight of silent hosts.
func TestDoneDoesNotDependOnWhoAgedOutFirst(t *testing.T) {
	for gone := range 21 {
		for _, first := range []string{"those on the target", "the others"} {
			w := newWorld(t, regular("{name: a, "+everyDay+"}"))
			hosts := w.add("a", 100, "17.2.0")
			w.begin("Mon 10:00")
			w.tick()
			for _, h := range hosts[:89] {
				w.update(h, "17.2.1")
			}
			leave := hosts[100-gone:]
			if first == "those on the target" {
				leave = hosts[:gone]
			}
			w.now = w.now.Add(24 * time.Minute)
			w.alive(leave...)
			w.now = w.now.Add(2 * time.Minute)
			w.tick()
			if w.group("a").State == Done {
				t.Errorf("%d of 100 hosts are gone, %s: the group is done, and at most 89 hosts are on the target", gone, first)
			}
		}
	}
}

// A host that fails in the very second in which its guarded group starts halts it, though enough of the others are on the
// version: the counts of that tick were taken before the trial.
func TestAFailureInTheInstantOfTheStartCounts(t *testing.T) {
	w := newWorld(t, regular("{name: dev, "+everyDay+", max_failed_before_halt: 0, max_timeout_before_halt: 50}"))
	w.add("dev", 3, "17.2.1")
	failing := w.add("dev", 1, "17.2.0")
	w.begin("Mon 10:00")
	w.fail(failing[0])
	w.tick()
	w.want("active")
	w.tick()
	if g := w.group("dev"); g.Halted == nil || g.Halted.Reason != HostsFailed {
		t.Errorf("%+v", g)
	}
}
