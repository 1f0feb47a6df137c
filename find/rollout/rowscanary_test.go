package rollout

import (
	"testing"
	"time"
)

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
