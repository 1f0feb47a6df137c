package server

import (
	"context"
	"net/http"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/driver"
	"teleport-update/find/server/inventory"
	"teleport-update/find/store"
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

// clockedStore is one with a clock of its own.
type clockedStore struct {
	store.Store
	clock *clock
}

func (s *clockedStore) Now(context.Context) (time.Time, error) { return s.clock.Now(), nil }

// skewed is a server whose engine compares its clock with that of its store.
func (w *storeWorld) skewed(own, stores *clock) *reportWorld {
	w.t.Helper()
	s := &clockedStore{Store: w.store, clock: stores}
	r := w.reporting(own, s)
	engine := (*driver.Engine)(nil)
	fleet, err := inventory.OpenFleet(w.t.Context(), inventory.FleetOptions{
		Store: s, Clock: own.Now, Elapsed: w.elapsed, Log: w.options.Log, Skew: func() time.Duration { return engine.Skew() },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	options := r.driven
	options.Inventory, options.SetRight, options.StoreClock = fleet, fleet.SetRight, s.Now
	engine = driver.NewEngine(options)
	r.engine, r.fleet, r.handler = engine, fleet, New(Options{Answers: r.stored, Fleet: fleet, Log: w.options.Log})
	return r
}

// The clocks of a server and its store are 15 days apart, and agree again later: each host that has been heard of within two weeks
// is known all the time, with what it has said, even if it was heard of last while they were apart. Hosts that are gone are
// forgotten afterwards.
func TestClocksThatAreApartForgetNobody(t *testing.T) {
	const days = 24 * time.Hour
	for name, off := range map[string]struct{ own, stores time.Duration }{
		"the store's is behind":  {0, -15 * days},
		"the store's is ahead":   {0, 15 * days},
		"the server's is ahead":  {15 * days, 0},
		"the server's is behind": {-15 * days, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStoreWorld(t)
			own, stores := newClock(), newClock()
			r := w.skewed(own, stores)
			hours := func(n int, polls ...int) {
				for minute := range 60 * n {
					for _, c := range []*clock{own, stores} {
						c.pass(time.Minute)
					}
					if minute%5 == 0 {
						r.engine.Tick(t.Context()) // which fails while the clocks are apart
						r.tickFleet()
					}
					if minute%10 == 0 {
						for _, i := range polls {
							if status, said := r.says(i, "dev", "17.2.0", nil); status != http.StatusOK {
								t.Fatalf("after %d minutes host %d is told %d %s", minute, i, status, said.Error)
							}
						}
					}
				}
			}
			known := func(when string, want ...int) {
				t.Helper()
				items, _, err := w.other.List(t.Context(), "agents/host/")
				if err != nil || len(items) != len(want) || r.fleet.Len() != len(want) {
					t.Fatalf("%s: %d hosts are known, and %d are in the store, %v; want %d", when, r.fleet.Len(), len(items), err, len(want))
				}
				for _, i := range want {
					if e, _ := r.fleet.Entry(rollout.ParseHostID(hostUUID(i))); e.Failed.Error != "it broke" {
						t.Errorf("%s: host %d is known as %+v", when, i, e)
					}
				}
			}
			r.joined(r.token("all"), "dev", 0, 1)
			for i := range 2 {
				r.said(i, "dev", "17.2.0", failedAt("17.2.1", "it broke"))
			}
			for range 16 * days / (20 * time.Minute) { // they have been there for longer than hosts are known that are not
				own.pass(20 * time.Minute)
				stores.pass(20 * time.Minute)
				r.said(0, "dev", "17.2.0", nil)
				r.said(1, "dev", "17.2.0", nil)
			}
			hours(2, 0, 1)
			own.pass(off.own)
			stores.pass(off.stores)
			hours(3, 0, 1)
			known("while they are apart", 0, 1)
			own.pass(-off.own)
			stores.pass(-off.stores)
			hours(3, 0)
			known("afterwards", 0, 1)
			for range 30 {
				own.pass(days)
				stores.pass(days)
				hours(2, 0)
			}
			known("after a month", 0)
		})
	}
}

// A server whose clock is 15 days ahead, or behind, has no dead host count as present at another one, and no live host as
// missing.
func TestAServerWithAnotherTimeMovesNoHost(t *testing.T) {
	for _, off := range []time.Duration{15 * 24 * time.Hour, -15 * 24 * time.Hour} {
		w := newStoreWorld(t)
		right, wrong := newClock(), newClock()
		wrong.pass(off)
		a, b := w.reporting(right, w.store), w.reporting(wrong, w.other)
		b.secrets, b.last = a.secrets, a.last
		a.joined(a.token("all"), "dev", 0, 1)
		b.tickFleet()
		minutes := func(n int, hosts ...int) {
			for minute := range n {
				for _, i := range hosts {
					if minute%5 == 0 {
						b.said(i, "dev", "17.2.0", failedAt("17.2.1", right.Now().String()))
					}
				}
				right.pass(time.Minute)
				wrong.pass(time.Minute)
				a.tickFleet()
				b.tickFleet()
				a.tickFleet()
			}
		}
		minutes(30, 0, 1)
		minutes(27, 0)
		for i, there := range map[int]bool{0: true, 1: false} {
			e, _ := a.fleet.Entry(rollout.ParseHostID(hostUUID(i)))
			if present := right.Now().Sub(e.LastSeen) <= rollout.PresentFor; present != there || e.LastSeen.After(right.Now()) {
				t.Errorf("by a server that is off by %s, host %d was last seen at %s; now it is %s", off, i, e.LastSeen, right.Now())
			}
		}
	}
}

// The clock of a server is set ahead by hours, and hosts report to it before it has noticed: to it they come back after a long
// time. To a server that has heard of them all the time they are not new, and they stay in its counts.
func TestAClockThatLeapsMakesNoHostNew(t *testing.T) {
	w := newStoreWorld(t)
	right, wrong := newClock(), newClock()
	a, b := w.reporting(right, w.store), w.reporting(wrong, w.other)
	b.secrets, b.last = a.secrets, a.last
	a.joined(a.token("all"), "dev", 0, 1, 2)
	for range 5 {
		for _, r := range []*reportWorld{a, b} {
			r.clock.pass(8 * time.Minute)
		}
		for i := range 3 {
			a.said(i, "dev", "17.2.0", nil)
		}
		a.tickFleet()
		b.tickFleet()
	}
	wrong.pass(2 * time.Hour)
	for i := range 3 {
		b.said(i, "dev", "17.2.0", nil)
	}
	right.pass(time.Second)
	for range 2 { // what is put right is in the store then
		a.tickFleet()
		b.tickFleet()
	}
	for i := range 3 {
		e, known := a.fleet.Entry(rollout.ParseHostID(hostUUID(i)))
		if omitted := e.Omitted(right.Now()); !known || omitted != "" {
			t.Errorf("host %d is left out: %q, first seen %s", i, omitted, e.FirstSeen)
		}
		if e, _ := b.fleet.Entry(rollout.ParseHostID(hostUUID(i))); right.Now().Sub(e.FirstSeen) < 30*time.Minute {
			t.Errorf("to the other server, host %d is first seen %s", i, e.FirstSeen)
		}
	}
}

func TestTheStatusSaysHowFarTheClocksAreApart(t *testing.T) {
	w := newStoreWorld(t)
	c := w.control(newClock(), w.store)
	if c.engine.Status().Skew != nil {
		t.Error("there is a difference of one clock")
	}
	options := c.driven
	options.StoreClock = func(context.Context) (time.Time, error) { return c.clock.Now().Add(-12 * time.Second), nil }
	engine := driver.NewEngine(options)
	engine.Tick(t.Context())
	if skew := engine.Status().Skew; skew == nil || *skew != -12*time.Second {
		t.Errorf("the difference is %v", skew)
	}
}
