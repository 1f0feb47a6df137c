package server

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/admin"
	"teleport-update/find/server/answers"
)

// An engine without its store says so, and goes on when the store is back.
func TestAnEngineWithoutItsStoreSaysSo(t *testing.T) {
	w := newStoreWorld(t)
	clock := newClock()
	w.write(strings.Replace(enabledGroups("{name: dev, days: ['*'], start_hour: 11}"), "mode: enabled", "mode: enabled, strategy: time-based, maintenance_window_duration: 2h", 1))
	w.write(scheduled)
	c := w.control(clock, w.store)
	c.tick()
	c.tick()
	told := func() bool { return c.stored.AnswerTo(rollout.Query{Group: "dev"}).AutoUpdate }
	if !told() {
		t.Fatalf("the group is %s", c.states())
	}
	dir := filepath.Dir(w.path)
	move(t, dir, dir+".away")
	clock.pass(time.Hour)
	if _, err := c.engine.Tick(t.Context()); err == nil {
		t.Error("the store is not missed")
	}
	c.stored.Refresh(t.Context())
	if age, err := c.stored.Age(); age != time.Hour || err == nil || c.engine.Status().Err == nil {
		t.Errorf("the age is %s, %v", age, err)
	}
	a := newAdminSocket(t, admin.Options{Stored: c.stored, Store: w.store, Engine: c.engine, Log: w.options.Log})
	if status, body := a.do("GET", "/v1/status", ""); status != 200 || !strings.Contains(body, `"snapshot_age_seconds":3600,"store_error":"the store`) || !strings.Contains(body, `"engine_error":"the store`) {
		t.Errorf("%d %s", status, body)
	}
	if told() {
		t.Error("hosts are told to update without the store")
	}
	clock.pass(time.Hour)
	move(t, dir+".away", dir)
	c.tick()
	c.stored.Refresh(t.Context())
	if age, err := c.stored.Age(); age != 0 || err != nil || c.states() != "done" {
		t.Errorf("the store is back: %s, %v, %s", age, err, c.states())
	}
}

func TestRunTicksWhenItIsTold(t *testing.T) {
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 12}"))
	c := w.control(newClock(), w.store)
	looks := make(chan bool, 100)
	c.counting(func(r *rollout.Rollout, plans map[string]*rollout.Index, now time.Time, do func(rollout.Counts)) {
		looks <- true
		c.fleet.Counting(r, plans, now, do)
	})
	ctx, stop := context.WithCancel(t.Context())
	ticks, done := make(chan time.Time), make(chan bool)
	go func() {
		defer close(done)
		c.engine.Run(ctx, ticks)
	}()
	w.write(scheduled)
	ticks <- time.Time{} // the second tick at the earliest, which begins the rollout
	ticks <- time.Time{} // and this one sees it
	<-looks
	c.engine.Wake()
	<-looks
	dir := filepath.Dir(w.path)
	move(t, dir, dir+".away")
	ticks <- time.Time{}
	ticks <- time.Time{}
	move(t, dir+".away", dir)
	ticks <- time.Time{}
	ticks <- time.Time{}
	stop()
	<-done
	if log := w.log.String(); strings.Count(log, "the engine cannot step the rollout") != 1 || strings.Count(log, "the engine steps the rollout again") != 1 {
		t.Errorf("the log:\n%s", log)
	}
}

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

// What keeps a server from moving the rollout is said by status and by healthz, with the age of what is shown, until it is
// over: a store that is away, an engine that cannot step, reports that cannot be kept.
func TestWhatBlocksAServerIsSaid(t *testing.T) {
	for _, tc := range []struct {
		name    string
		trouble func(w *storeWorld, r *reportWorld, failing *failingStore) (end func())
		said    string
	}{
		{"the store is away", func(w *storeWorld, _ *reportWorld, _ *failingStore) func() {
			dir := filepath.Dir(w.path)
			move(t, dir, dir+".away")
			return func() { move(t, dir+".away", dir) }
		}, "the store cannot be followed for 3m0s, and no host is told to update: "},
		{"the engine cannot step", func(_ *storeWorld, r *reportWorld, failing *failingStore) func() {
			r.reads(26 * time.Minute)
			failing.fail = true // hosts are away, which the engine has to write
			return func() { failing.fail = false }
		}, "the rollout cannot be moved since 29m0s ago: "},
		{"reports cannot be kept", func(_ *storeWorld, r *reportWorld, failing *failingStore) func() {
			failing.fail = true
			r.says(1, "dev", "17.2.0", failedAt("17.2.1", "it broke"))
			return func() { failing.fail = false }
		}, "reports of hosts cannot be kept, and no group goes on: no space is left"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, r, failing, _ := updating(t)
			ctx, stop := context.WithCancel(t.Context())
			ticks, ended := make(chan time.Time), make(chan struct{})
			go func() { defer close(ended); r.fleet.Run(ctx, ticks) }()
			defer func() { stop(); <-ended }()
			options := admin.Options{Stored: r.stored, Store: failing, Engine: r.engine, Fleet: r.fleet, Log: w.options.Log}
			served := httptest.NewServer(New(Options{Answers: r.stored, Fleet: r.fleet, Blocked: options.Blocked, Log: w.options.Log}))
			defer served.Close()
			health := func() string {
				_, body := get(t, served.URL+"/healthz")
				return body
			}
			look := func() string {
				ticks <- r.clock.Now()
				ticks <- r.clock.Now() // the first one is over
				r.engine.Tick(t.Context())
				r.stored.Refresh(t.Context())
				return strings.Join(options.Blocked(), "\n")
			}
			if said := look(); said != "" || health() != "ok\n" {
				t.Fatalf("nothing is wrong, and it says %q, and %q", said, health())
			}
			end := tc.trouble(w, r, failing)
			r.clock.pass(3 * time.Minute)
			if said := look(); !strings.Contains(said, tc.said) || health() != "ok\nblocked\n" {
				t.Errorf("it says %q, and %q; want %q", said, health(), tc.said)
			}
			end()
			look()
			if said := look(); said != "" || health() != "ok\n" {
				t.Errorf("it is over, and it says %q, and %q", said, health())
			}
		})
	}
}
