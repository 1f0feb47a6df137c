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
