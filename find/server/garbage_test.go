package server

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"

	"teleport-update/find/store"
)

// crowdedStore has more hosts than are written to it, and calls during with the last
// of them.
type crowdedStore struct {
	store.Store
	during func()
}

func (s crowdedStore) Scan(ctx context.Context, prefix string, f func(store.Item) bool) (store.Revision, error) {
	for i := range sparedAfter + 2 {
		if i == sparedAfter+1 {
			s.during()
		}
		if !f(store.Item{Key: hostPrefix + hostUUID(i), Value: []byte("{}"), Revision: 1}) {
			return 0, fmt.Errorf("host %d was not taken", i)
		}
	}
	return s.Store.Scan(ctx, prefix, f)
}

// The memory of many hosts would be there twice, and is the most while they are read.
func TestLittleGarbageGathersWithManyHosts(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	w := newStoreWorld(t)
	many := make([]byte, 2*muchLives) // as hosts are, to the runtime
	runtime.GC()
	const most = garbageMost * 100 / (2 * muchLives)
	var reading uint64
	r := w.reporting(newClock(), crowdedStore{w.store, func() { reading = gogc() }})
	if reading > most || gogc() > most {
		t.Errorf("%d %% of garbage while hosts are read, %d %% after that; want at most %d %%", reading, gogc(), most)
	}
	runtime.KeepAlive(many)
	many = nil
	runtime.GC()
	if err := r.fleet.Tick(t.Context()); err != nil || gogc() != 100 {
		t.Errorf("%d %% of garbage without so much, %v; want 100 %%", gogc(), err)
	}
}

// Without many hosts an administrator has his way.
func TestWhatGOGCSaysStays(t *testing.T) {
	defer func(before uint64) { configured = before }(configured)
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for _, percent := range []int{50, -1} {
		debug.SetGCPercent(percent)
		configured = gogc()
		if spare(); gogc() != configured {
			t.Errorf("%d %% of garbage; want %d %%", gogc(), configured)
		}
	}
}
