package server

import (
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/inventory"
)

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
