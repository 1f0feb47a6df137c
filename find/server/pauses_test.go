package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/server/inventory"
	"teleport-update/find/store"
)

// awayStore is one that can be away, and counts who asks for its identity.
type awayStore struct {
	store.Store
	away     atomic.Bool
	identity atomic.Int64
	ofAny    atomic.Int64 // changes of hosts that are for any store
	scanned  func()
}

var errAway = errors.New("the store is away")

func (s *awayStore) List(ctx context.Context, prefix string) ([]store.Item, store.Revision, error) {
	if s.away.Load() {
		return nil, store.None, errAway
	}
	return s.Store.List(ctx, prefix)
}

func (s *awayStore) Identity(ctx context.Context) (store.Identity, error) {
	s.identity.Add(1)
	if s.away.Load() {
		return store.Identity{}, errAway
	}
	return s.Store.Identity(ctx)
}

func (s *awayStore) Commit(ctx context.Context, c store.Change) ([]store.Revision, error) {
	if s.away.Load() {
		return nil, errAway
	}
	if strings.HasPrefix(c.Writes[0].Key, "agents/host/") && c.Of == (store.Identity{}) {
		s.ofAny.Add(1)
	}
	return s.Store.Commit(ctx, c)
}

func (s *awayStore) Scan(ctx context.Context, prefix string, f func(store.Item) bool) (store.Revision, error) {
	at, err := s.Store.Scan(ctx, prefix, f)
	if hook := s.scanned; hook != nil {
		s.scanned = nil
		hook()
	}
	return at, err
}

// The store is away for an hour, and a host of another server has updated meanwhile: it has not timed out. The group goes
// on once hosts have had time to report.
func TestAnHourWithoutTheStoreTimesNobodyOut(t *testing.T) {
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 11, timeout_seconds: 1800, max_timeout_before_halt: 10%}"))
	w.write(scheduled)
	clock := newClock()
	handles := []*awayStore{{Store: w.store}, {Store: w.other}}
	a, b := w.reporting(clock, handles[0]), w.reporting(clock, handles[1])
	b.secrets, b.last = a.secrets, a.last
	a.joined(a.token("all"), "dev", 0, 1, 2, 3)
	told := func(h *find.Heartbeat) { h.Told = "17.2.1" }
	servers := []*reportWorld{a, b}
	minutes := func(n int) {
		for range n * 6 {
			clock.pass(10 * time.Second)
			for _, s := range servers {
				s.fleet.Tick(t.Context())
				s.engine.Tick(t.Context())
				s.stored.Refresh(t.Context())
			}
		}
	}
	poll := func(s *reportWorld, v string, edit func(*find.Heartbeat)) {
		for i := range 4 {
			s.says(i, "dev", v, edit) // which is refused while the store is away
		}
	}
	for range 4 {
		poll(a, "17.2.0", nil)
		minutes(7)
	}
	poll(a, "17.2.0", told)
	minutes(1)
	if a.states() != "active" {
		t.Fatalf("the group is %s", a.states())
	}
	for _, h := range handles {
		h.away.Store(true)
	}
	for range 6 {
		poll(b, "17.2.1", nil)
		minutes(10)
	}
	for _, h := range handles {
		h.away.Store(false)
	}
	// This server is the first one to see the store again, and the engine of it looks at once.
	servers = servers[:1]
	minutes(1)
	if g := a.rollout().Status.Groups[0]; g.Halted != nil || g.State != rollout.Active {
		t.Fatalf("after the outage the group is %s, %+v", g.State, g.Halted)
	}
	if !a.engine.Status().Waiting {
		t.Error("what hosts say to others is known at once")
	}
	servers = []*reportWorld{a, b}
	for range 3 {
		poll(b, "17.2.1", nil)
		minutes(10)
	}
	if g := a.rollout().Status.Groups[0]; g.Halted != nil || g.State != rollout.Done {
		t.Errorf("half an hour after the outage the group is %s, %+v", g.State, g.Halted)
	}
}

// Whoever was paused does not know what hosts would have said: the process, or the machine with all of its clocks. A clock
// that was set ahead by less than a poll is neither.
func TestAPauseTimesNobodyOut(t *testing.T) {
	for name, c := range map[string]struct {
		away, elapsed time.Duration
		complete      bool
	}{
		"the process was paused":              {time.Hour, time.Hour, false},
		"the process was paused for a moment": {time.Minute, time.Minute, true},
		"the process was paused for minutes":  {4 * time.Minute, 4 * time.Minute, false},
		"the machine was stopped":             {20 * time.Minute, time.Second, false},
		"the clock was set ahead by some":     {9 * time.Minute, time.Second, true},
	} {
		w := newStoreWorld(t)
		clock := newClock()
		var elapsed time.Duration
		f, err := inventory.OpenFleet(t.Context(), inventory.FleetOptions{Store: w.store, Clock: clock.Now, Log: w.options.Log,
			Elapsed: func() time.Duration { return elapsed }})
		if err != nil {
			t.Fatal(err)
		}
		reads := func(later, runs time.Duration) {
			clock.pass(later)
			elapsed += runs
			if err := f.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for range rollout.PresentFor / time.Minute {
			reads(time.Minute, time.Minute)
		}
		reads(c.away, c.elapsed)
		if complete := countsOf(f, new(rollout.Rollout), clock.Now()).Complete; complete != c.complete {
			t.Errorf("%s: the counts are complete: %t", name, complete)
		}
	}
}

// A server was about to write who was seen when the store went away, and the write is done when it is back: what it knew
// before does not say that anybody was heard meanwhile.
func TestANoteThatCameLateCoversNothing(t *testing.T) {
	for late, complete := range map[time.Duration]bool{0: true, 5 * time.Minute: false, 20 * time.Minute: false} {
		w := newStoreWorld(t)
		r := w.reporting(newClock(), w.store)
		r.joined(r.token("all"), "dev", 0)
		knew := r.clock.Now().Add(-time.Hour)
		note := func(to time.Time) {
			seen := fleet.Seen{From: to.Add(-time.Minute), To: to, Covered: knew}
			change := store.Change{Writes: []store.Write{{Key: fmt.Sprint("agents/seen/other/", to.Unix(), "-0"), Value: seen.Bytes(),
				Expires: to.Add(2 * time.Hour)}}}
			if _, err := w.other.Commit(t.Context(), change); err != nil {
				t.Fatal(err)
			}
		}
		note(r.clock.Now())
		r.reads(time.Minute)
		r.clock.pass(22 * time.Minute)
		note(r.clock.Now().Add(-late))
		r.reads(time.Second)
		if n := countsOf(r.fleet, new(rollout.Rollout), r.clock.Now()); n.Complete != complete {
			t.Errorf("the note is %s late, and the counts are complete: %t", late, n.Complete)
		}
	}
}

// Other servers do not hear of hosts that report to a server which cannot reach the store, or cannot write it: it refuses
// them, so that they may go to another one, and knows itself that it may have missed others.
func TestWhoCannotTellOthersTakesNoReport(t *testing.T) {
	for _, what := range []string{"the store is away", "the store takes no change"} {
		t.Run(what, func(t *testing.T) {
			w := newStoreWorld(t)
			clock := newClock()
			began := clock.Now()
			w.elapsed = func() time.Duration { return clock.Now().Sub(began) }
			away, full := &awayStore{Store: w.store}, &failingStore{Store: w.store}
			cut := w.reporting(clock, map[string]store.Store{"the store is away": away, "the store takes no change": full}[what])
			other := w.reporting(clock, w.other)
			other.secrets, other.last = cut.secrets, cut.last
			cut.joined(cut.token("all"), "dev", 0, 1)
			complete := func(r *reportWorld) bool { return countsOf(r.fleet, new(rollout.Rollout), clock.Now()).Complete }
			says := func(r *reportWorld) int {
				status, _ := r.says(0, "dev", "17.2.0", nil)
				return status
			}
			minutes := func(n int) {
				for range n {
					clock.pass(time.Minute)
					cut.fleet.Tick(t.Context()) // which fails for some of the time
					other.fleet.Tick(t.Context())
				}
			}
			minutes(26)
			says(cut)
			if got := says(cut); got != http.StatusOK || !complete(cut) {
				t.Fatalf("before: %d", got)
			}
			away.away.Store(true)
			full.fail = true
			minutes(2)
			if got := says(cut); got != http.StatusOK {
				t.Errorf("after two minutes: %d", got)
			}
			minutes(2)
			if mine, others := says(cut), says(other); mine != http.StatusServiceUnavailable || others != http.StatusOK {
				t.Errorf("after four minutes: %d, and another server: %d", mine, others)
			}
			if complete(cut) || !complete(other) {
				t.Errorf("after four minutes the counts are complete: %t, and of another server: %t", complete(cut), complete(other))
			}
			away.away.Store(false)
			full.fail = false
			minutes(1)
			if got := says(cut); got != http.StatusOK || complete(cut) {
				t.Errorf("afterwards: %d, and the counts are complete: %t", got, complete(cut))
			}
			minutes(25)
			if !complete(cut) {
				t.Error("the counts are never complete again")
			}
		})
	}
}
