package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/inventory"
)

// What was answered is there after a kill: the verdict of a host above all.
func TestARestartForgetsNothing(t *testing.T) {
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 12, max_failed_before_halt: 0%}"))
	w.write(scheduled)
	r := w.reporting(newClock(), w.store)
	token := r.token("all")
	hosts := []int{0, 1, 2, 3}
	r.joined(token, "dev", hosts...)
	round := func(failing int) {
		for _, i := range hosts {
			r.said(i, "dev", "17.2.0", func(b *find.Heartbeat) {
				if a := r.stored.AnswerTo(rollout.Query{Group: "dev", Host: hostUUID(i)}); a.AutoUpdate {
					b.Told = a.Version
				}
				if i == failing {
					failedAt("17.2.1", "it broke\nbadly")(b)
				}
			})
		}
	}
	tick := func() { // of a fleet and of an engine
		t.Helper()
		if err := r.fleet.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.tick()
	}
	for range 6 {
		r.clock.pass(10 * time.Minute)
		round(-1)
		tick()
	}
	tick()
	if got := r.states(); got != "active" {
		t.Fatalf("the group is %s\n%s", got, w.log.String())
	}
	r.clock.pass(time.Minute)
	round(2) // and the server is killed before the engine looks
	r = r.again(w.other)
	r.tick()
	got := r.rollout().Status.Groups[0]
	if got.Halted == nil || !strings.Contains(got.Halted.Message, "web-2 (00000002-0000-4000-8000-000000000000): it broke badly") {
		t.Errorf("the verdict is forgotten: %+v\n%s", got, w.log.String())
	}
	// All of a host is there again.
	var before, after fleet.Entry
	first := r.fleet
	r = r.again(w.store)
	for _, i := range hosts {
		before, _ = first.Entry(rollout.ParseHostID(hostUUID(i)))
		after, _ = r.fleet.Entry(rollout.ParseHostID(hostUUID(i)))
		if before.LastSeen, before.Burst, before.Revision = after.LastSeen, after.Burst, after.Revision; before != after {
			t.Errorf("%+v\n%+v", before, after)
		}
	}
}

// A server that was away for a moment goes on; one that was away for longer waits until
// hosts have had time to report.
func TestAShortRestartNeedsNoWait(t *testing.T) {
	for _, tc := range []struct {
		away     time.Duration
		complete bool
	}{{time.Minute, true}, {3 * time.Minute, true}, {4 * time.Minute, false}, {time.Hour, false}} {
		w := newStoreWorld(t)
		r := w.reporting(newClock(), w.store)
		r.joined(r.token("all"), "dev", 0, 1)
		for range 4 {
			r.clock.pass(8 * time.Minute)
			r.said(0, "dev", "17.2.0", nil)
			if err := r.fleet.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		r.said(1, "dev", "17.2.0", nil)
		r.reads(24 * time.Minute)
		r.said(0, "dev", "17.2.0", nil)
		if err := r.fleet.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.clock.pass(tc.away)
		r = r.again(w.other)
		if r.fleet.Len() != 2 {
			t.Fatalf("%d hosts", r.fleet.Len())
		}
		n := countsOf(r.fleet, new(rollout.Rollout), r.clock.Now())
		if n.Complete != tc.complete {
			t.Errorf("after %s the counts are complete: %t", tc.away, n.Complete)
		}
		// The second host could not report while nobody was there.
		if e, _ := r.fleet.Entry(rollout.ParseHostID(hostUUID(1))); tc.complete && e.Omitted(r.clock.Now()) != "" {
			t.Errorf("after %s a host is %s", tc.away, e.Omitted(r.clock.Now()))
		}
		// What was replayed from before is still refused.
		r.last[0]--
		if status, _ := r.says(0, "dev", "17.2.0", nil); status != http.StatusConflict {
			t.Errorf("a replay after a restart: %d", status)
		}
	}
}

// A server that nobody has reported to before counts hosts once each has had 25 minutes to report.
func TestANewServerWaitsForTwoPolls(t *testing.T) {
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 11}"))
	w.write(scheduled)
	w.reporting(newClock(), w.store).token("used") // a store that nobody has used has no hosts to wait for
	r := w.reporting(newClock(), w.store)
	r.joined(r.token("all"), "dev", 0)
	r.tick()
	for _, step := range []struct {
		pass   time.Duration
		states string
	}{{10 * time.Minute, "unstarted"}, {14*time.Minute + 59*time.Second, "unstarted"}, {time.Second, "active"}} {
		r.reads(step.pass)
		r.said(0, "dev", "17.2.0", nil)
		if err := r.fleet.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.tick()
		if got := r.states(); got != step.states || r.engine.Status().Waiting != (got == "unstarted") {
			t.Errorf("%s: the group is %s, and the engine waits: %t", r.clock.Now().Format("15:04:05"), got, r.engine.Status().Waiting)
		}
	}
}

// A server on a store that nobody has used yet has no host to wait for. If the store has a record of a change, or hosts, the
// server waits: hosts that reported to the server of before may be on their way.
func TestAFreshStoreHasNobodyToWaitFor(t *testing.T) {
	for name, tc := range map[string]struct {
		use  func(w *storeWorld, c *clock)
		wait time.Duration
	}{
		"nobody has used it": {func(*storeWorld, *clock) {}, 0},
		"a server has run on it": {func(w *storeWorld, c *clock) {
			r := w.reporting(c, w.store)
			r.tick()
			r.tickFleet()
			c.pass(time.Hour)
		}, 0},
		"it has a configuration": {func(w *storeWorld, c *clock) {
			list := parseAll(w.t, enabledGroups("{name: dev, days: ['*'], start_hour: 12}"))
			if _, err := w.reporting(c, w.store).stored.Apply(w.t.Context(), list, answers.ApplyOptions{}); err != nil {
				w.t.Fatal(err)
			}
		}, rollout.PresentFor},
		"the first server on it has set its version": {func(w *storeWorld, c *clock) {
			list := parseAll(w.t, scheduled)
			if _, err := w.control(c, w.store).stored.Apply(w.t.Context(), list, answers.ApplyOptions{}); err != nil {
				w.t.Fatal(err)
			}
			w.fresh = true // when it started
		}, 0},
		"it has a token": {func(w *storeWorld, c *clock) { w.reporting(c, w.store).token("all") }, rollout.PresentFor},
		"it has hosts, and was away for long": {func(w *storeWorld, c *clock) {
			r := w.reporting(c, w.store)
			r.joined(r.token("all"), "dev", 0, 1, 2)
			r.tickFleet()
			c.pass(time.Hour)
		}, rollout.PresentFor},
		"it has hosts, and was away for a minute": {func(w *storeWorld, c *clock) {
			r := w.reporting(c, w.store)
			r.joined(r.token("all"), "dev", 0, 1, 2)
			for i := range 3 {
				r.said(i, "dev", "17.2.0", nil)
			}
			c.pass(time.Minute)
			r.tickFleet()
			c.pass(time.Minute)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newStoreWorld(t), newClock()
			tc.use(w, c)
			c.pass(inventory.SyncEvery)
			if wait := w.reporting(c, w.store).fleet.CompleteAt().Sub(c.Now()); max(wait, 0) != tc.wait {
				t.Errorf("the server waits for %s; want %s", wait, tc.wait)
			}
		})
	}
}
