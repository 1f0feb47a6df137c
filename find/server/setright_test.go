package server

import (
	"context"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/driver"
	"teleport-update/find/server/inventory"
)

// A server's clock was an hour wrong, and is put right: hosts that reported to it meanwhile count as nothing else than
// before, at this server and at the other one.
func TestAClockThatIsPutRightMovesNobody(t *testing.T) {
	for name, off := range map[string]time.Duration{"behind": -time.Hour, "ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := newStoreWorld(t)
			right, wrong := newClock(), newClock()
			a, b := w.reporting(right, w.store), w.reporting(wrong, w.other)
			b.secrets, b.last = a.secrets, a.last
			engine := (*driver.Engine)(nil)
			fleet, err := inventory.OpenFleet(t.Context(), inventory.FleetOptions{
				Store: w.other, Clock: wrong.Now, Log: w.options.Log, Skew: func() time.Duration { return engine.Skew() },
			})
			if err != nil {
				t.Fatal(err)
			}
			options := b.driven
			options.Inventory, options.SetRight = fleet, fleet.SetRight
			options.StoreClock = func(context.Context) (time.Time, error) { return right.Now(), nil }
			engine = driver.NewEngine(options)
			b.fleet, b.handler = fleet, New(Options{Answers: b.stored, Fleet: fleet, Log: w.options.Log})
			a.joined(a.token("all"), "dev", 0)
			for _, c := range []*clock{right, wrong} {
				c.pass(rollout.PresentFor + time.Minute)
			}
			b.tickFleet()
			wrong.pass(off)
			engine.Tick(t.Context())
			b.said(0, "dev", "17.2.0", attempt(1))
			wrong.pass(-off)
			engine.Tick(t.Context())
			b.tickFleet()
			if n := countsOf(fleet, new(rollout.Rollout), wrong.Now()); n.Complete {
				t.Error("silence counts, though reports have the times of a wrong clock")
			}
			a.tickFleet()
			for i, f := range []*inventory.Fleet{fleet, a.fleet} {
				e, _ := f.Entry(rollout.ParseHostID(hostUUID(0)))
				if !e.LastSeen.Equal(right.Now()) || !e.Failed.At.Equal(right.Now()) {
					t.Errorf("server %d: the host was seen at %s and failed at %s; want %s", i, e.LastSeen, e.Failed.At, right.Now())
				}
			}
			wrong.pass(rollout.PresentFor)
			if at := fleet.CompleteAt(); !at.Equal(wrong.Now()) {
				t.Errorf("the counts are complete at %s; want %s", at, wrong.Now())
			}
		})
	}
}

// A server's clock was two hours ahead, and is put right: it goes on telling other servers within a minute who reports to it.
// Nobody else would hear of its hosts for two hours, and they would have timed out.
func TestAClockThatWasAheadKeepsNobodyFromBeingSeen(t *testing.T) {
	w := newStoreWorld(t)
	right, wrong := newClock(), newClock()
	a, b := w.reporting(right, w.store), w.reporting(wrong, w.other)
	b.secrets, b.last = a.secrets, a.last
	a.joined(a.token("all"), "dev", 0)
	b.tickFleet()
	wrong.pass(2 * time.Hour)
	b.tickFleet()
	wrong.pass(-2 * time.Hour)
	for range 3 {
		for _, c := range []*clock{right, wrong} {
			c.pass(10 * time.Minute)
		}
		b.said(0, "dev", "17.2.0", nil)
		b.tickFleet()
		a.tickFleet()
	}
	if e, _ := a.fleet.Entry(rollout.ParseHostID(hostUUID(0))); right.Now().Sub(e.LastSeen) > time.Minute {
		t.Errorf("at %s the other server has heard of the host at %s", right.Now(), e.LastSeen)
	}
}

// The clock of a server is set back by hours, and a host says to it that the version failed, before the server has noticed: to the
// others the failure is of now, and the group is halted for it.
func TestAFailureThatAClockSetBackTookHaltsTheGroup(t *testing.T) {
	w, a, _, _ := updating(t)
	wrong := newClock()
	b := w.reporting(wrong, w.other)
	b.secrets, b.last = a.secrets, a.last
	wrong.pass(a.clock.Now().Sub(wrong.Now()) - 3*time.Hour)
	b.said(0, "dev", "17.2.0", failedAt("17.2.1", "it broke"))
	a.tickFleet()
	a.tick()
	e, _ := a.fleet.Entry(rollout.ParseHostID(hostUUID(0)))
	if g := a.rollout().Status.Groups[0]; g.Halted == nil {
		t.Errorf("the group goes on: it began %s, and the failure is of %s", g.StartTime, e.Failed.At)
	}
}
