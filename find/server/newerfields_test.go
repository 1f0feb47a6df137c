package server

import (
	"encoding/json"
	"strings"
	"testing"
)

// What a newer server of the store has noted of a host is there after an older one has written its report, and after it has
// started again.
func TestFieldsOfANewerServerAreKept(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	r.joined(r.token("all"), "dev", 0, 1)
	r.said(0, "dev", "17.2.0", nil)
	key := "agents/host/" + hostUUID(0)
	item, err := w.other.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	w.put(key, strings.TrimSuffix(string(item.Value), "}")+`,"kernel":{"release":"6.1","n":[1,2]}}`)
	if err := r.fleet.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, v := range []string{"17.2.1", "17.2.2"} {
		r.said(0, "dev", v, nil)
		r.said(1, "dev", v, nil)
		if item, err = w.other.Get(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		var there struct {
			Version string
			Kernel  struct {
				Release string
				N       []int
			}
		}
		if err := json.Unmarshal(item.Value, &there); err != nil || there.Version != v || there.Kernel.Release != "6.1" || len(there.Kernel.N) != 2 {
			t.Errorf("write %d: %v: %s", i, err, item.Value)
		}
		other, err := w.other.Get(t.Context(), "agents/host/"+hostUUID(1))
		if err != nil || strings.Contains(string(other.Value), "kernel") {
			t.Errorf("another host has them: %v %s", err, other.Value)
		}
		r = r.again(w.store)
	}
}
