package server

import (
	"context"
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

// What was answered is there after a kill: the verdict of a host above all.
func TestARestartForgetsNothing(t *testing.T) {
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 12, max_failed_before_halt: 0%}"))
	w.write(scheduled)
	r := w.reporting(newClock(), w.store)
	token := r.token("all")
	hosts := []int{0, 1, 2, 3}
	r.joined(token, "dev", hosts...)
	round := func(failing int) {
		for _, i := range hosts {
			r.said(i, "dev", "17.2.0", func(b *find.Heartbeat) {
				if a := r.stored.AnswerTo(rollout.Query{Group: "dev", Host: hostUUID(i)}); a.AutoUpdate {
					b.Told = a.Version
				}
				if i == failing {
					failedAt("17.2.1", "it broke\nbadly")(b)
				}
			})
		}
	}
	tick := func() { // of a fleet and of an engine
		t.Helper()
		if err := r.fleet.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.tick()
	}
	for range 6 {
		r.clock.pass(10 * time.Minute)
		round(-1)
		tick()
	}
	tick()
	if got := r.states(); got != "active" {
		t.Fatalf("the group is %s\n%s", got, w.log.String())
	}
	r.clock.pass(time.Minute)
	round(2) // and the server is killed before the engine looks
	r = r.again(w.other)
	r.tick()
	got := r.rollout().Status.Groups[0]
	if got.Halted == nil || !strings.Contains(got.Halted.Message, "web-2 (00000002-0000-4000-8000-000000000000): it broke badly") {
		t.Errorf("the verdict is forgotten: %+v\n%s", got, w.log.String())
	}
	// All of a host is there again.
	var before, after fleet.Entry
	first := r.fleet
	r = r.again(w.store)
	for _, i := range hosts {
		before, _ = first.Entry(rollout.ParseHostID(hostUUID(i)))
		after, _ = r.fleet.Entry(rollout.ParseHostID(hostUUID(i)))
		if before.LastSeen, before.Burst, before.Revision = after.LastSeen, after.Burst, after.Revision; before != after {
			t.Errorf("%+v\n%+v", before, after)
		}
	}
}

// A server that was away for a moment goes on; one that was away for longer waits until
// hosts have had time to report.
func TestAShortRestartNeedsNoWait(t *testing.T) {
	for _, tc := range []struct {
		away     time.Duration
		complete bool
	}{{time.Minute, true}, {3 * time.Minute, true}, {4 * time.Minute, false}, {time.Hour, false}} {
		w := newStoreWorld(t)
		r := w.reporting(newClock(), w.store)
		r.joined(r.token("all"), "dev", 0, 1)
		for range 4 {
			r.clock.pass(8 * time.Minute)
			r.said(0, "dev", "17.2.0", nil)
			if err := r.fleet.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		r.said(1, "dev", "17.2.0", nil)
		r.reads(24 * time.Minute)
		r.said(0, "dev", "17.2.0", nil)
		if err := r.fleet.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.clock.pass(tc.away)
		r = r.again(w.other)
		if r.fleet.Len() != 2 {
			t.Fatalf("%d hosts", r.fleet.Len())
		}
		n := countsOf(r.fleet, new(rollout.Rollout), r.clock.Now())
		if n.Complete != tc.complete {
			t.Errorf("after %s the counts are complete: %t", tc.away, n.Complete)
		}
		// The second host could not report while nobody was there.
		if e, _ := r.fleet.Entry(rollout.ParseHostID(hostUUID(1))); tc.complete && e.Omitted(r.clock.Now()) != "" {
			t.Errorf("after %s a host is %s", tc.away, e.Omitted(r.clock.Now()))
		}
		// What was replayed from before is still refused.
		r.last[0]--
		if status, _ := r.says(0, "dev", "17.2.0", nil); status != http.StatusConflict {
			t.Errorf("a replay after a restart: %d", status)
		}
	}
}

// Two servers with one store know the same hosts, and their verdicts.
func TestTwoServersKnowTheSameHosts(t *testing.T) {
	w := newStoreWorld(t)
	clock := newClock()
	a, b := w.reporting(clock, w.store), w.reporting(clock, w.other)
	b.secrets, b.last = a.secrets, a.last
	token := a.token("all")
	b.joined(token, "dev", 0)
	sync := func(r *reportWorld) {
		t.Helper()
		if err := r.fleet.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sync(a)
	a.said(0, "dev", "17.2.0", failedAt("17.2.1", "it broke"))
	clock.pass(time.Minute)
	b.said(0, "dev", "17.2.2", nil) // which does not know of it yet
	sync(a)
	for _, r := range []*reportWorld{a, b} {
		e, ok := r.fleet.Entry(rollout.ParseHostID(hostUUID(0)))
		if !ok || e.Failed.Error != "it broke" || e.Version != "17.2.2" {
			t.Errorf("%+v", e)
		}
	}
	if _, err := a.fleet.RevokeHost(t.Context(), rollout.ParseHostID(hostUUID(0)), store.Audit{Who: "uid 0"}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := a.fleet.RevokeToken(t.Context(), "all", false, store.Audit{Who: "uid 0"}, false); err != nil {
		t.Fatal(err)
	}
	if status, _ := b.joins(5, token, secretOf(5), "dev"); status != http.StatusUnauthorized {
		t.Errorf("a token that was revoked elsewhere: %d", status)
	}
	if status, _ := b.says(0, "dev", "17.2.2", nil); status != http.StatusUnauthorized {
		t.Errorf("a host that was revoked elsewhere: %d", status)
	}
	// Who was seen by one is known to the other.
	a.joined(a.token("more"), "dev", 1, 2)
	clock.pass(2 * time.Minute)
	a.said(1, "dev", "17.2.0", nil)
	for _, r := range []*reportWorld{a, b} {
		if err := r.fleet.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if e, _ := b.fleet.Entry(rollout.ParseHostID(hostUUID(1))); !e.LastSeen.Equal(clock.Now()) || e.Sequence != 1 {
		t.Errorf("%+v", e)
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

// A server that nobody has reported to before counts hosts once each has had 25 minutes to report.
func TestANewServerWaitsForTwoPolls(t *testing.T) {
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 11}"))
	w.write(scheduled)
	w.reporting(newClock(), w.store).token("used") // a store that nobody has used has no hosts to wait for
	r := w.reporting(newClock(), w.store)
	r.joined(r.token("all"), "dev", 0)
	r.tick()
	for _, step := range []struct {
		pass   time.Duration
		states string
	}{{10 * time.Minute, "unstarted"}, {14*time.Minute + 59*time.Second, "unstarted"}, {time.Second, "active"}} {
		r.reads(step.pass)
		r.said(0, "dev", "17.2.0", nil)
		if err := r.fleet.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.tick()
		if got := r.states(); got != step.states || r.engine.Status().Waiting != (got == "unstarted") {
			t.Errorf("%s: the group is %s, and the engine waits: %t", r.clock.Now().Format("15:04:05"), got, r.engine.Status().Waiting)
		}
	}
}
