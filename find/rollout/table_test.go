package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// rowTest runs the test of a row. in makes a world of some spec.agents.
type rowTest func(from, when, then string, test func(t *testing.T, in func(agents string) *world))

// The rows of the design's table of group states, by their words.
func TestRowsOfTheStateTable(t *testing.T) {
	var taken []Step
	var row rowTest = func(from, when, then string, test func(t *testing.T, in func(agents string) *world)) {
		t.Run(fmt.Sprintf("%s | %s | %s", from, when, then), func(t *testing.T) {
			var worlds []*world
			test(t, func(agents string) *world {
				w := newWorld(t, agents)
				worlds = append(worlds, w)
				return w
			})
			for _, w := range worlds {
				taken = append(taken, w.steps...)
			}
		})
	}

	row("any", "start_version, target_version or the version's schedule differs from the rollout's", "a new rollout: config copied in, all unstarted",
		func(t *testing.T, in func(string) *world) {
			for name, edit := range map[string]func(*VersionAgents){
				"start":  func(v *VersionAgents) { v.StartVersion = "17.1.0" },
				"target": func(v *VersionAgents) { v.TargetVersion = "17.2.2" },
				// A downgrade is a target like any other.
				"an older target": func(v *VersionAgents) { v.TargetVersion = "16.0.0" },
				"schedule":        func(v *VersionAgents) { v.Schedule = Critical },
				"nothing":         func(v *VersionAgents) { v.Mode = Enabled },
			} {
				w := in(regular("{name: dev, " + everyDay + "}"))
				w.add("dev", 5, "17.2.0")
				w.begin("Mon 10:00")
				w.tick()
				w.want("active")
				w.configure(regular("{name: dev, days: [Tue], start_hour: 4}", "{name: more, start_hour: 5}"))
				edit(&w.version.Spec.Agents)
				w.tick()
				if name == "nothing" {
					w.want("active")
					continue
				}
				w.want("unstarted unstarted")
				g, agents := w.group("dev"), w.version.Spec.Agents
				if g.ConfigStartHour != 4 || !slices.Equal(g.ConfigDays, []Day{"Tue"}) || w.rollout.Spec.StartVersion != agents.StartVersion || w.rollout.Spec.TargetVersion != agents.TargetVersion {
					t.Errorf("%s: %+v", name, w.rollout)
				}
			}
		})

	row("any", "mode not enabled", "no automatic step; counts still refresh; find triggers nobody",
		func(t *testing.T, in func(string) *world) {
			for _, mode := range []Mode{Suspended, Disabled} {
				w := in(regular("{name: dev, "+everyDay+", max_failed_before_halt: 0}", "{name: stage, "+everyDay+"}", "{name: prod, "+everyDay+", canary_count: 1}"))
				dev := w.add("dev", 4, "17.2.1")
				stage := w.add("stage", 4, "17.2.0")
				w.begin("Mon 10:00")
				w.tick()
				w.want("active unstarted unstarted") // a guarded group is judged by counts of its trial
				w.tick()
				w.want("done active unstarted")
				w.version.Spec.Agents.Mode = mode
				for _, h := range stage {
					w.update(h, "17.2.1")
				}
				w.pass(20 * time.Minute)
				w.want("done active unstarted")
				if g := w.group("stage"); g.UpToDateCount != 4 || w.rollout.Spec.Mode != mode {
					t.Errorf("%s: the counts are those of before: %+v", mode, g)
				}
				for _, h := range slices.Concat(dev, stage) {
					if w.find(h).AutoUpdate {
						t.Errorf("%s: %s is told to update", mode, h)
					}
				}
				w.version.Spec.Agents.Mode = Enabled
				w.tick()
				w.want("done done active") // as there is nobody in prod
			}
		})

	row("unstarted (halt-on-error)", "every prerequisite done, none halted, wait_hours since the last one's done_time, now inside [start_hour, +1 h) UTC on an allowed day",
		"initial_count := present; canaries picked → canary, else active",
		func(t *testing.T, in func(string) *world) {
			start := func(agents, moment string, want string, edit func(w *world)) {
				t.Helper()
				w := in(agents)
				w.add("a", 6, "17.2.0")
				w.add("b", 3, "17.2.0")
				w.begin(moment)
				if edit != nil {
					edit(w)
				}
				w.tick()
				w.want(want)
			}
			one := regular("{name: a, days: [Mon, Wed], start_hour: 23}")
			for moment, want := range map[string]string{
				"Mon 22:59": "unstarted", "Mon 23:00": "active", "Mon 23:59": "active", "Tue 00:00": "unstarted", "Tue 23:30": "unstarted", "Wed 23:30": "active", "Sun 23:30": "unstarted",
			} {
				start(one, moment, want, nil)
			}
			for moment, want := range map[string]string{"Thu 04:30": "active", "Fri 04:30": "unstarted", "Mon 03:59": "unstarted"} {
				start(regular("{name: a, start_hour: 4}"), moment, want, nil) // Monday to Thursday
			}
			two := regular("{name: a, "+everyDay+"}", "{name: b, "+everyDay+", wait_hours: 5}")
			done := func(at string) func(w *world) {
				return func(w *world) {
					g := &w.rollout.Status.Groups[0]
					g.State, g.DoneTime = Done, when(at)
				}
			}
			start(two, "Tue 10:30", "active unstarted", nil)
			start(two, "Tue 10:30", "done active", done("Tue 05:30"))
			start(two, "Tue 10:30", "done unstarted", done("Tue 05:31"))
			start(two, "Tue 10:30", "done!expired unstarted", func(w *world) {
				done("Mon 10:00")(w)
				w.rollout.Status.Groups[0].Halted = &Halted{Reason: Expired}
			})
			// A group that was done by hand does not stand for those before it.
			three := regular("{name: a, "+everyDay+", canary_count: 1}", "{name: b, "+everyDay+"}", "{name: c, "+everyDay+"}")
			start(three, "Tue 10:30", "canary done unstarted", func(w *world) {
				w.rollout.Status.Groups[1].State, w.rollout.Status.Groups[1].DoneTime = Done, when("Mon 00:00")
			})
			graph := regular("{name: late, "+everyDay+", requires: [b]}", "{name: a, "+everyDay+"}", "{name: b, "+everyDay+", requires: [a]}", "{name: c, "+everyDay+"}")
			start(graph, "Tue 10:30", "unstarted active unstarted active", nil)
			start(graph, "Tue 10:30", "unstarted active done active", func(w *world) { w.rollout.Status.Groups[2].State = Done })

			w := in(regular("{name: a, " + everyDay + ", canary_count: 5}"))
			w.add("a", 3, "17.2.0") // fewer than canaries
			w.fleet.named("a-2").Version = "17.2.1"
			w.begin("Mon 10:00")
			w.tick()
			w.want("canary")
			if names := w.canaryNames("a"); len(names) != 2 || slices.Contains(names, "a-2") || w.group("a").InitialCount != 3 {
				t.Errorf("canaries %q of %+v", names, w.group("a"))
			}
			if g := w.group("a"); g.CanaryCount != 2 || g.ConfigCanaryCount != 5 {
				t.Errorf("canary_count is %d, and %d is configured; want the number that was picked", g.CanaryCount, g.ConfigCanaryCount)
			}
			w = in(regular("{name: a, " + everyDay + ", canary_count: 5}"))
			w.add("a", 3, "17.2.1")
			w.fleet.named("a-2").Version = "17.2.0"
			w.fleet.named("a-2").Unhealthy = true // could show nothing
			w.begin("Mon 10:00")
			w.tick()
			w.want("active")
		})

	row("unstarted (halt-on-error)", "all hosts of the group are missing", "condition HostsMissing: it does not start",
		func(t *testing.T, in func(string) *world) {
			w := in(regular("{name: a, " + everyDay + ", canary_count: 1}"))
			w.add("a", 5, "17.2.0")
			w.begin("Mon 09:30")
			w.now = when("Mon 10:00") // the network is down
			w.tick()
			w.want("unstarted?HostsMissing")
			if got := w.refused(Order{Verb: StartUpdate, Groups: []string{"a"}}); !strings.Contains(got, "none of them reports now; --force") {
				t.Error(got)
			}
			w.now = when("Mon 10:30")
			w.alive() // and comes back
			w.tick()
			w.want("unstarted?HostsMissing")
			w.pass(time.Minute)
			w.want("canary")
			w = in(regular("{name: a, " + everyDay + "}"))
			hosts := w.add("a", 5, "17.2.0")
			w.begin("Mon 10:00")
			for _, h := range hosts {
				w.fleet.named(h).LastSeen = w.now.Add(-24 * time.Hour) // they are gone
			}
			w.tick()
			w.want("active")
		})

	rowsOfCanaries(row)
	rowsOfActiveGroups(row)
	rowsOfTimeBasedGroups(row)
	row("by hand", "start-update [--force] · mark-done · rollback · retry · reset", "as named, with who and why in the audit list", testOrders)

	t.Run("every row of the code's table has been taken", func(t *testing.T) {
		for _, tr := range transitions {
			if !slices.ContainsFunc(taken, func(s Step) bool {
				return s.From == tr.from && s.Reason == tr.reason && s.Halted == tr.halt && (tr.halt || s.To == tr.to)
			}) {
				t.Errorf("%s | %s", tr.from, tr.when)
			}
		}
		for _, o := range orders {
			for _, from := range o.from {
				if !slices.ContainsFunc(taken, func(s Step) bool { return s.From == from && strings.HasPrefix(string(s.Reason), manual[o.verb]) }) {
					t.Errorf("%s of a group that is %s", o.verb, from)
				}
			}
		}
	})
}

// manual are the reasons of the orders.
var manual = map[Verb]string{StartUpdate: "manual_", MarkDone: string(ManualDone), Rollback: string(ManualRollback), Retry: string(ManualRetry)}

func movedBy(kind ConditionType, from State) (moved string) {
	for _, c := range conditions {
		if c.kind == kind && c.from == from {
			moved += c.moved + "; "
		}
	}
	return moved
}

// all are all hosts of the fleet.
func (w *world) all() (names []string) {
	for _, h := range w.fleet.hosts {
		names = append(names, h.Hostname)
	}
	return names
}

func rowsOfCanaries(row rowTest) {
	row("canary", "every canary reports the target", "active",
		func(t *testing.T, in func(string) *world) {
			w := in(regular("{name: a, " + everyDay + ", canary_count: 2}"))
			w.add("a", 5, "17.2.0")
			w.begin("Mon 10:00")
			w.tick()
			canaries := w.canaryNames("a")
			w.update(canaries[0], "17.2.1")
			w.tick()
			w.want("canary")
			if c := w.group("a").Canaries; !c[0].Success || c[1].Success {
				t.Errorf("canaries %+v", c)
			}
			w.update(canaries[1], "17.2.1")
			w.tick()
			w.want("active")
		})

	row("canary", "a canary failed or rolled back, or reported the instruction and exceeded its time (timeout_seconds, else 1 h)", "halted",
		func(t *testing.T, in func(string) *world) {
			start := func(more string) (*world, string) {
				w := in(regular("{name: a, "+everyDay+", canary_count: 1"+more+"}", "{name: b, "+everyDay+"}"))
				w.add("a", 5, "17.2.0")
				w.begin("Mon 10:00")
				w.tick()
				return w, w.canaryNames("a")[0]
			}
			w, c := start("")
			w.fail(c)
			w.tick()
			w.want("canary!canary_failed unstarted")
			w, c = start("")
			w.report(c, func(b *Heartbeat) { b.Outcome = &Outcome{Target: "17.2.0", State: OutcomeFailed, Time: w.now} })
			w.tick()
			w.want("canary unstarted") // of another version
			w, c = start("")
			w.report(c, func(b *Heartbeat) { b.Outcome = &Outcome{Target: "17.2.1", State: OutcomeStarted, Time: w.now} })
			w.pass(20*time.Minute, c)
			w.want("canary unstarted")
			w.pass(time.Minute, c)
			w.want("canary!canary_failed unstarted") // began, and has not reported since
			for more, limit := range map[string]time.Duration{"": time.Hour, ", timeout_seconds: 600": 10 * time.Minute, ", timeout_seconds: 600, jitter_seconds: 60": 11 * time.Minute} {
				w, c = start(more)
				w.pass(8 * time.Hour) // the time runs from its own report
				w.want("canary?Stalled unstarted")
				w.poll(c)
				w.tick()
				w.want("canary unstarted")
				w.pass(limit - time.Second)
				w.want("canary unstarted")
				w.pass(time.Second)
				w.want("canary!canary_timed_out unstarted")
			}
			w, c = start("")
			w.poll(c)
			w.jitter = 10 * time.Minute // of the server
			w.pass(70*time.Minute - time.Second)
			w.want("canary unstarted")
		})

	row("canary", "a canary is gone that has said nothing", "condition Stalled",
		func(t *testing.T, in func(string) *world) {
			w := in(regular("{name: a, " + everyDay + ", canary_count: 2}"))
			w.add("a", 5, "17.2.0")
			w.begin("Mon 10:00")
			w.tick()
			c := w.canaryNames("a")
			w.update(c[1], "17.2.1")
			w.pass(25*time.Minute, c...)
			w.want("canary") // one has shown what it had to
			w.pass(time.Minute, c...)
			w.want("canary?Stalled")
			w.report(c[0], nil)
			w.tick()
			w.want("canary?Stalled") // another server may not have heard of it
			w.pass(conditionStays, c...)
			w.want("canary")
		})
}

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
