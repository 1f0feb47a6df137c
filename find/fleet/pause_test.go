package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	"teleport-update/find/rollout"
)

// Whoever goes through many hosts sleeps now and then. The clock of the bubble goes on only
// while everybody sleeps: to yield the processor does not move it.
func TestOthersGoOnWhileManyHostsAreGoneThrough(t *testing.T) {
	const hosts, atMost = 20_000, 5_000
	table := New(Limits{Words: 10})
	for i := range hosts {
		table.Put(&Entry{Host: rollout.Host{ID: id(i)}})
	}
	for name, goThrough := range map[string]func(seen func()){
		"entries": func(seen func()) { table.Each(func(*Entry) bool { seen(); return true }) },
		"hosts": func(seen func()) {
			for range table.View().All() {
				seen()
			}
		},
		"hosts that differ": func(seen func()) {
			for range table.View().Alike(noon) {
				seen()
			}
		},
		"look-ups": func(seen func()) {
			view := table.View()
			for i := range hosts {
				view.Host(id(i))
				seen()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				last, since, longest, all := time.Now(), 0, 0, 0
				goThrough(func() {
					all, since = all+1, since+1
					if now := time.Now(); now != last {
						last, since = now, 0
					}
					longest = max(longest, since)
				})
				if all != hosts || longest > atMost {
					t.Errorf("%d of %d hosts, and %d without a pause; want at most %d", all, hosts, longest, atMost)
				}
			})
		})
	}
}
