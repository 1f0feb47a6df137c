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
	for i := range hostsBeforeALook + 2 {
		if i == hostsBeforeALook+1 {
			s.during()
		}
		if !f(store.Item{Key: "agents/host/" + hostUUID(i), Value: []byte("{}"), Revision: 1}) {
			return 0, fmt.Errorf("host %d was not taken", i)
		}
	}
	return s.Store.Scan(ctx, prefix, f)
}

const (
	hostsBeforeALook = 10_000   // hosts, by which it is looked at the first time
	aLotLives        = 32 << 20 // bytes, from which on less garbage gathers
	mostGarbage      = 4 << 20  // bytes of garbage there
)

// garbagePercent is how much garbage gathers now, in percent of what lives.
func garbagePercent() int {
	percent := debug.SetGCPercent(-1)
	debug.SetGCPercent(percent)
	return percent
}

// The memory of many hosts would be there twice, and is the most while they are read.
func TestLittleGarbageGathersWithManyHosts(t *testing.T) {
	if testing.Short() {
		t.Skip("it collects the garbage of many hosts")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	w := newStoreWorld(t)
	many := make([]byte, 2*aLotLives) // as hosts are, to the runtime
	runtime.GC()
	const most = mostGarbage * 100 / (2 * aLotLives)
	var reading int
	r := w.reporting(newClock(), crowdedStore{w.store, func() { reading = garbagePercent() }})
	if reading > most || garbagePercent() > most {
		t.Errorf("%d %% of garbage while hosts are read, %d %% after that; want at most %d %%", reading, garbagePercent(), most)
	}
	runtime.KeepAlive(many)
	many = nil
	runtime.GC()
	if err := r.fleet.Tick(t.Context()); err != nil || garbagePercent() != 100 {
		t.Errorf("%d %% of garbage without so much, %v; want 100 %%", garbagePercent(), err)
	}
}
