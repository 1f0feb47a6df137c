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
	"teleport-update/find/server/driver"
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

// The first change of an empty store comes while a server loads it.
func TestTheFirstChangeDuringALoadIsNotMissed(t *testing.T) {
	w := newStoreWorld(t)
	clock := newClock()
	other := w.reporting(clock, w.other)
	hooked := &awayStore{Store: w.store}
	hooked.scanned = func() { other.token("first") }
	r := w.reporting(clock, hooked)
	if err := r.fleet.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tokens := r.fleet.Tokens(); len(tokens) != 1 {
		t.Errorf("the server knows %d tokens", len(tokens))
	}
}

// A report costs one operation of the store if it has something to keep, and none if not.
func TestReportsDoNotAskWhichStoreItIs(t *testing.T) {
	w := newStoreWorld(t)
	counted := &awayStore{Store: w.store}
	r := w.reporting(newClock(), counted)
	r.joined(r.token("all"), "dev", 0, 1, 2)
	before := counted.identity.Load()
	for n := range 5 {
		for i := range 3 {
			r.said(i, "dev", "17.2.0", verdict(n))
		}
	}
	if asked := counted.identity.Load() - before; asked != 0 {
		t.Errorf("15 reports asked %d times", asked)
	}
	if n := counted.ofAny.Load(); n > 0 {
		t.Errorf("%d reports would be written to any store", n)
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
