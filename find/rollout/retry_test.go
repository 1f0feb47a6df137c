package rollout

import (
	"strings"
	"testing"
	"time"
)

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
