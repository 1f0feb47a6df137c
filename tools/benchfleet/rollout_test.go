package main

import (
	"path/filepath"
	"testing"
	"time"

	"teleport-update/find/server/driver"
	"teleport-update/find/store"
)

// The rollout that is measured is one: nine in ten hosts are updated, no report is refused, and no more are on their way than may be.
func TestTheFleetIsUpdated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store", "store.db")
	open := func() (store.Store, error) {
		s, err := store.OpenSQLite(t.Context(), path)
		if err == nil {
			t.Cleanup(func() { s.Close() })
		}
		return s, err
	}
	const hosts = 240
	w := newWorld(hosts, time.Date(2025, 6, 2, 11, 0, 0, 0, time.UTC))
	s, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if err := populate(t.Context(), s, hosts, w.clock.now()); err != nil {
		t.Fatal(err)
	}
	if err := w.start(t.Context(), open); err != nil {
		t.Fatal(err)
	}
	if err := w.sites[0].prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	rounds, err := w.play(t.Context())
	if err != nil || w.updated() < hosts*9/10 || w.refusals.Load() > 0 {
		t.Fatalf("after %d rounds %d of %d hosts are updated, %d reports were refused: %v", rounds, w.updated(), hosts, w.refusals.Load(), err)
	}
	// Two polls until all are known. Then a quarter at a time, and the next begins when the last of the
	// quarter has polled, which is a part of the ten minutes: two polls at the very least.
	if least := int((2*poll + 2*poll) / driver.TickEvery); rounds < least {
		t.Errorf("%d rounds are fewer than the %d that the limit allows", rounds, least)
	}
}
