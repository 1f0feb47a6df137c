package server

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/admin"
	"teleport-update/find/server/answers"
)

// updating is a server with a group of ten hosts that update, the first of which fails.
func updating(t *testing.T) (w *storeWorld, r *reportWorld, failing *failingStore, fail func(i int)) {
	t.Helper()
	w = newStoreWorld(t)
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 11, max_failed_before_halt: 0%}"))
	w.write(scheduled)
	failing = &failingStore{Store: w.store}
	r = w.reporting(newClock(), failing)
	hosts := []int{0, 1, 2, 3, 4}
	r.joined(r.token("all"), "dev", hosts...)
	for range 4 {
		r.clock.pass(9 * time.Minute)
		for _, i := range hosts {
			r.said(i, "dev", "17.2.0", nil)
		}
		r.tickFleet()
		r.tick()
	}
	if got := r.states(); got != "active" {
		t.Fatalf("the group is %s\n%s", got, w.log.String())
	}
	for _, i := range hosts {
		r.said(i, "dev", "17.2.0", func(b *find.Heartbeat) { b.Told = "17.2.1" })
	}
	return w, r, failing, func(i int) {
		r.says(i, "dev", "17.2.0", func(b *find.Heartbeat) { failedAt("17.2.1", "it broke")(b) })
	}
}

func (c *control) told() bool {
	return c.stored.AnswerTo(rollout.Query{Group: "dev", Host: hostUUID(4)}).AutoUpdate
}

// While the store cannot be written, or is away, hosts are told the version of before and to stay. A failure that a host reports
// meanwhile halts the group before any host is let on again.
func TestWhileTheStoreCannotBeWrittenNoHostUpdates(t *testing.T) {
	for name, reads := range map[string]bool{"it is read": true, "it is away": false} {
		for report, fails := range map[string]bool{"a host fails": true, "no host fails": false} {
			t.Run(name+", "+report, func(t *testing.T) {
				w, r, failing, fail := updating(t)
				if !r.told() {
					t.Fatal("the group is not told to update")
				}
				dir := filepath.Dir(w.path)
				failing.fail = true
				if !reads {
					move(t, dir, dir+".away")
					r.stored.Refresh(t.Context())
				}
				if fails {
					fail(0)
				} else {
					r.says(0, "dev", "17.2.1", nil)
				}
				stays := func(when string) {
					t.Helper()
					if a := r.stored.AnswerTo(rollout.Query{Group: "dev", Host: hostUUID(4)}); a.AutoUpdate || a.Version != "17.2.1" {
						t.Errorf("%s a host is told %+v", when, a)
					}
					if version, _ := r.stored.Channel("dev"); version != "" {
						t.Errorf("%s a host that asks for a channel is told %s", when, version)
					}
				}
				for range 3 {
					r.engine.Tick(t.Context())
					stays("without the store")
				}
				options := admin.Options{Stored: r.stored, Store: failing, Engine: r.engine, Fleet: r.fleet, Log: w.options.Log}
				if said := strings.Join(options.Blocked(), "\n"); !strings.Contains(said, "no host is told to update") {
					t.Errorf("it says %q", said)
				}
				if !reads {
					move(t, dir+".away", dir)
				}
				failing.fail = false
				r.stored.Refresh(t.Context())
				stays("before the first tick")
				r.tick()
				stays("before other servers have ticked")
				r.tick()
				if r.told() == fails || (r.rollout().Status.Groups[0].Halted != nil) != fails {
					t.Errorf("the group is %s, and told to update: %t\n%s", r.states(), r.told(), w.log.String())
				}
				if blocked := options.Blocked(); len(blocked) > 0 {
					t.Errorf("it says %q", blocked)
				}
			})
		}
	}
}

// The store was away for two servers, and a host has reported a failure to one of them. The other one can write first.
func TestAFailureReportedToAnotherServerHaltsFirst(t *testing.T) {
	w, other, _, _ := updating(t)
	away := &awayStore{Store: w.other}
	r := other.again(away)
	away.away.Store(true)
	for _, s := range []*reportWorld{r, other} {
		s.stored.Store().Put(t.Context(), "", nil, 7) // no store takes it
	}
	r.says(0, "dev", "17.2.0", failedAt("17.2.1", "it broke"))
	other.tick()
	if other.told() {
		t.Error("a host is told to update before the server that knows of a failure has ticked")
	}
	away.away.Store(false)
	r.tick()
	other.tick()
	for i, s := range []*reportWorld{r, other} {
		if s.stored.Refresh(t.Context()); s.told() || s.states() != "active!" {
			t.Errorf("server %d: the group is %s, and told to update: %t", i, s.states(), s.told())
		}
	}
}

// A person who writes a resource is the first to see that the store takes no change.
func TestAResourceThatCannotBeWrittenLetsNoHostUpdate(t *testing.T) {
	_, r, failing, _ := updating(t)
	failing.fail = true
	if _, err := r.stored.Apply(t.Context(), parseAll(t, enabledGroups("{name: dev, days: ['*'], start_hour: 12}")), answers.ApplyOptions{}); err == nil {
		t.Fatal("the resource was written")
	}
	if r.told() {
		t.Error("a host is told to update")
	}
}

// A server starts on a store that can be read and not be written.
func TestAServerThatStartsOnAFullDiskLetsNoHostUpdate(t *testing.T) {
	w, r, failing, _ := updating(t)
	failing.fail = true
	r = r.again(failing)
	r.engine.Tick(t.Context())
	if r.told() {
		t.Errorf("the group is %s, and told to update\n%s", r.states(), w.log.String())
	}
}

// An older copy of the store lacks a halt. No host is let on before the halt is decided again.
func TestAnOlderCopyOfTheStoreLetsNoHaltedGroupGoOn(t *testing.T) {
	w, r, _, fail := updating(t)
	copied := copyStore(t, w.path)
	fail(0)
	r.tick()
	if r.states() != "active!" || r.told() {
		t.Fatalf("the group is %s", r.states())
	}
	replaceStore(t, w.path, copied)
	for range 3 {
		if r.stored.Refresh(t.Context()); r.told() {
			t.Fatalf("the group is %s in the copy, and hosts are told to update", r.states())
		}
		r.tickFleet()
		r.tick()
	}
	if r.states() != "active!" {
		t.Errorf("the group is %s", r.states())
	}
}

// Counts that are older than half a minute when they are to be written advance nothing: they are counted again.
func TestOldCountsAdvanceNothing(t *testing.T) {
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 11}"))
	w.write(scheduled)
	r := w.reporting(newClock(), w.store)
	r.tick()
	r.reads(rollout.PresentFor)
	r.joined(r.token("all"), "dev", 0)
	r.said(0, "dev", "17.2.0", nil)
	r.clock.pass(2 * time.Minute)
	r.tickFleet()
	looks, pause := 0, 31*time.Second
	r.counting(func(s *rollout.Rollout, plans map[string]*rollout.Index, now time.Time, do func(rollout.Counts)) {
		r.fleet.Counting(s, plans, now, do)
		looks++
		r.clock.pass(pause)
	})
	if _, err := r.engine.Tick(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 30s ago") || looks != 3 {
		t.Errorf("after %d looks: %v", looks, err)
	}
	if got := r.states(); got != "unstarted" {
		t.Errorf("the group is %s by counts of before", got)
	}
	pause = 29 * time.Second
	if r.tick(); r.states() != "active" {
		t.Errorf("the group is %s", r.states())
	}
}
