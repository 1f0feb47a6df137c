package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/server/inventory"
	"teleport-update/find/store"
)

// A host joins once. With the same secret it may ask again, as the answer may have
// been lost; with another one it has to be let go first.
func TestASecondJoin(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	token := r.token("all")
	r.joined(token, "dev", 0)
	r.said(0, "dev", "17.2.0", failedAt("17.2.1", "it broke"))
	if status, said := r.joins(0, token, r.secrets[0], "dev"); status != http.StatusOK {
		t.Errorf("the same join again: %d %+v", status, said)
	}
	if status, _ := r.joins(0, token, "another secret of the host", "dev"); status != http.StatusConflict {
		t.Errorf("a second join: %d", status)
	}
	if _, err := r.fleet.RevokeHost(t.Context(), rollout.ParseHostID(hostUUID(0)), store.Audit{Who: "uid 0", Why: "disk exchanged"}, false); err != nil {
		t.Fatal(err)
	}
	if status, _ := r.says(0, "dev", "17.2.0", nil); status != http.StatusUnauthorized {
		t.Errorf("a report after it was revoked: %d", status)
	}
	r.secrets[0] = "another secret of the host"
	if status, said := r.joins(0, token, r.secrets[0], "dev"); status != http.StatusOK {
		t.Fatalf("a join after it was revoked: %d %+v", status, said)
	}
	r.last[0] = 0
	r.said(0, "dev", "17.2.0", nil)
	e, _ := r.fleet.Entry(rollout.ParseHostID(hostUUID(0)))
	if e.Failed.Error != "it broke" {
		t.Errorf("the verdict is gone with the secret: %+v", e)
	}
	records, err := w.store.History(t.Context(), 10)
	if err != nil || len(records) != 2 || records[0].What != "token revoke-host "+hostUUID(0) || records[0].Why != "disk exchanged" || records[1].What != "token add all" {
		t.Errorf("%+v, %v", records, err)
	}
}

// Two hosts with one secret are told by their boots, which take turns; a reboot is
// none.
func TestAClonedSecret(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	r.joined(r.token("all"), "dev", 0)
	id := rollout.ParseHostID(hostUUID(0))
	boot := func(b, v string) *fleet.Entry {
		r.clock.pass(5 * time.Minute)
		r.said(0, "dev", v, func(h *find.Heartbeat) { h.BootID = b })
		e, _ := r.fleet.Entry(id)
		return &e
	}
	for _, b := range []string{"a", "a", "b", "c", "d", "d", "e"} {
		if e := boot(b, "17.2.0"); e.Cloned {
			t.Fatalf("after the boot %s it counts as cloned", b)
		}
	}
	if e := boot("d", "17.2.1"); !e.Cloned || e.Version != "17.2.0" || e.Omitted(r.clock.Now()) == "" {
		t.Errorf("a boot that comes back: %+v", e)
	}
	if e := boot("e", "17.2.1"); !e.Cloned || e.Version != "17.2.0" {
		t.Errorf("and its clone: %+v", e)
	}
	r = r.again(w.other)
	for range 5 {
		if e := boot("e", "17.2.1"); !e.Cloned {
			t.Fatal("the mark goes while the other one may be there")
		}
	}
	if e := boot("e", "17.2.1"); e.Cloned || e.Version != "17.2.1" {
		t.Errorf("the other one is gone: %+v", e)
	}
	for _, b := range []string{"x", "y", "z", "x"} { // three of them
		boot(b, "17.2.1")
	}
	if e, _ := r.fleet.Entry(id); !e.Cloned {
		t.Error("three hosts with one secret are not seen")
	}
}

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

// A report that cannot be kept is not acknowledged, and is kept once that is possible.
func TestAReportThatCannotBeKeptIsRefused(t *testing.T) {
	w := newStoreWorld(t)
	failing := &failingStore{Store: w.store}
	r := w.reporting(newClock(), failing)
	r.joined(r.token("all"), "dev", 0)
	r.said(0, "dev", "17.2.0", nil)
	failing.fail = true
	if status, said := r.says(0, "dev", "17.2.0", failedAt("17.2.1", "it broke")); status != http.StatusServiceUnavailable || !strings.Contains(said.Error, "no space") {
		t.Errorf("%d %+v", status, said)
	}
	if status, _ := r.says(0, "dev", "17.2.0", failedAt("17.2.1", "it broke")); status != http.StatusServiceUnavailable {
		t.Errorf("the same again is acknowledged: %d", status)
	}
	r.clock.pass(4 * time.Minute)
	if err := r.fleet.Tick(t.Context()); err == nil {
		t.Error("the store is not missed")
	}
	failing.fail = false
	if err := r.fleet.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	r = r.again(w.other)
	if e, _ := r.fleet.Entry(rollout.ParseHostID(hostUUID(0))); e.Failed.Error != "it broke" {
		t.Errorf("%+v", e)
	}
}

type failingStore struct {
	store.Store
	fail bool
}

func (s *failingStore) Commit(ctx context.Context, c store.Change) ([]store.Revision, error) {
	if s.fail {
		return nil, fmt.Errorf("no space is left")
	}
	return s.Store.Commit(ctx, c)
}

func (s *failingStore) Put(ctx context.Context, key string, value []byte, based store.Revision) (store.Revision, error) {
	if s.fail {
		return store.None, fmt.Errorf("no space is left")
	}
	return s.Store.Put(ctx, key, value, based)
}

// A host that reports all the time is not heard more often for it.
func TestAHostThatReportsAllTheTime(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	r.joined(r.token("all"), "dev", 0, 1)
	var taken []int
	for range 2 {
		count := 0
		for range 100 {
			if status, _ := r.says(0, "dev", "17.2.0", nil); status == http.StatusOK {
				count++
			} else if status != http.StatusTooManyRequests {
				t.Fatal(status)
			}
		}
		taken = append(taken, count)
		r.clock.pass(time.Minute)
	}
	if !slices.Equal(taken, []int{inventory.MaxBurst, inventory.MaxBurst}) {
		t.Errorf("taken: %v", taken)
	}
	r.said(1, "dev", "17.2.0", nil)
}

// Hosts that are gone are forgotten, in memory and in the store.
func TestHostsThatAreGoneAreForgotten(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	r.joined(r.token("all"), "dev", 0, 1, 2)
	r.said(0, "dev", "17.2.0", nil)
	r.said(1, "dev", "17.2.0", nil)
	r.clock.pass(inventory.HostLife - time.Hour)
	r.said(1, "dev", "17.2.0", nil)
	r.clock.pass(2 * time.Hour)
	for range 3 { // the first of them sees a clock that was set, or a pause
		if err := r.fleet.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r.fleet.Len() != 3 && r.clock.Now().Sub(newClock().Now()) < inventory.HostLife+90*time.Minute {
			t.Fatal("a server forgets hosts as soon as its clock has been set")
		}
		r.clock.pass(time.Hour)
	}
	items, _, err := w.other.List(t.Context(), "agents/host/")
	if err != nil || len(items) != 1 || items[0].Key != "agents/host/"+hostUUID(1) || r.fleet.Len() != 1 {
		t.Errorf("%v, %v, %d in memory", items, err, r.fleet.Len())
	}
	r.said(1, "dev", "17.2.0", nil)
}

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
