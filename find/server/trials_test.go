package server

import (
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/inventory"
)

// A host has failed, and somebody has the group try again. A server that has not heard of the failure yet, for it was paused or cut
// off, gets the host's next report, which repeats how its last attempt ended: that is no failure of the new trial, whatever time the
// server has. The next attempt that fails is one.
func TestOneFailureCountsInOneTrial(t *testing.T) {
	for name, c := range map[string]struct {
		off    time.Duration // by which the clock of the other server is
		cutOff bool
	}{
		"the other server was paused":                             {},
		"the other server was paused, and its clock was set back": {off: -3 * time.Hour},
		"the other server was paused, and its clock is ahead":     {off: 3 * time.Hour},
		"the other server is cut off":                             {cutOff: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, a, _, fail := updating(t)
			clock := newClock()
			clock.pass(a.clock.Now().Sub(clock.Now()))
			others := &failingStore{Store: w.other}
			b := w.reporting(clock, others)
			b.secrets, b.last = a.secrets, a.last
			minutes := func(n int) {
				a.reads(time.Duration(n) * time.Minute)
				clock.pass(time.Duration(n) * time.Minute)
			}
			minutes(1)
			fail(0)
			first, _ := a.fleet.Entry(rollout.ParseHostID(hostUUID(0)))
			a.tick()
			if a.rollout().Status.Groups[0].Halted == nil {
				t.Fatal("the group is not halted")
			}
			minutes(20)
			if _, err := a.engine.Order(t.Context(), rollout.Order{Who: "somebody", Verb: rollout.Retry, Groups: []string{"dev"}}, false); err != nil {
				t.Fatal(err)
			}
			minutes(9)
			clock.pass(c.off)
			others.fail = c.cutOff
			b.says(0, "dev", "17.2.0", failedAt("17.2.1", "it broke")) // which is refused by who is cut off, and known to it
			if c.cutOff {
				a.said(0, "dev", "17.2.0", func(h *find.Heartbeat) { failedAt("17.2.1", "it broke")(h); h.Told = "17.2.1" })
			}
			others.fail = false
			b.tickFleet()
			if e, _ := b.fleet.Entry(first.ID); c.off == 0 && e.Failed != first.Failed {
				t.Errorf("the other server: %+v; want %+v", e.Failed, first.Failed)
			}
			goOn := func() rollout.GroupStatus {
				for range 3 {
					a.tickFleet()
					b.tickFleet()
				}
				a.tick()
				return a.rollout().Status.Groups[0]
			}
			if g := goOn(); g.Halted != nil {
				t.Errorf("a failure of the trial before halts this one: %+v", g.Halted)
			}
			for i, s := range []*reportWorld{a, a.again(w.other)} {
				if e, _ := s.fleet.Entry(first.ID); e.Failed != first.Failed {
					t.Errorf("server %d: %+v; want %+v", i, e.Failed, first.Failed)
				}
			}
			clock.pass(inventory.SyncEvery - c.off)
			b.said(0, "dev", "17.2.0", func(h *find.Heartbeat) {
				failedAt("17.2.1", "it broke again")(h)
				h.Outcome.Time = h.Outcome.Time.Add(time.Hour)
			})
			if g := goOn(); g.Halted == nil {
				t.Error("a failure of this trial does not halt the group")
			}
		})
	}
}
