package server

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/admin"
)

// braking is a server with a group of ten hosts that update, the first of which fails.
func braking(t *testing.T) (w *storeWorld, r *reportWorld, failing *failingStore, fail func(i int)) {
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

// watchUntilWritten has the server look at its store until nothing is held any more.
func (c *control) watchUntilWritten() {
	c.t.Helper()
	ctx, stop := context.WithCancel(c.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.stored.Watch(ctx, time.Millisecond) }()
	defer func() { stop(); <-ended }()
	for limit := time.Now().Add(time.Minute); len(c.stored.Held()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			c.t.Fatalf("it is not written: %q", c.stored.Held())
		}
	}
}

// A halt that cannot be written holds on this server, whether or not the store can be read, and is written when that is
// possible.
func TestAHaltNeedsNoDisk(t *testing.T) {
	for _, readable := range []bool{true, false} {
		w, r, failing, fail := braking(t)
		if !r.told() {
			t.Fatal("the group is not told to update")
		}
		failing.fail = true
		dir := filepath.Dir(w.path)
		if !readable {
			move(t, dir, dir+".away")
		}
		fail(0)
		if _, err := r.engine.Tick(t.Context()); err == nil {
			t.Fatal("the store is not missed")
		}
		if r.told() {
			t.Fatalf("readable: %t: hosts are told to update while the halt cannot be written", readable)
		}
		r.clock.pass(time.Second)
		r.stored.Refresh(t.Context())
		r.engine.Tick(t.Context())
		options := admin.Options{Stored: r.stored, Store: failing, Engine: r.engine, Fleet: r.fleet, Log: w.options.Log}
		if r.told() || !strings.Contains(strings.Join(options.Blocked(), "\n"), "halted on this server only, not yet written: dev") {
			t.Errorf("readable: %t: after the next look: %q", readable, options.Blocked())
		}
		if !readable {
			move(t, dir+".away", dir)
		}
		if r.states() != "active" {
			t.Errorf("the group is %s in the store", r.states())
		}
		failing.fail = false
		r.tick()
		r.stored.Refresh(t.Context())
		if blocked := options.Blocked(); r.states() != "active!" || r.told() || len(blocked) > 0 {
			t.Errorf("readable: %t: the store is there again, and the group is %s; %q", readable, r.states(), blocked)
		}
		g := r.rollout().Status.Groups[0]
		if !g.LastUpdateTime.Equal(g.Halted.Since) || g.LastUpdateReason != g.Halted.Reason {
			t.Errorf("readable: %t: the halt is not the last change of the group: %+v", readable, g)
		}
		if records, err := w.store.History(t.Context(), 1); err != nil || !strings.Contains(records[0].What, "dev halted (hosts_failed") {
			t.Errorf("readable: %t: the halt is not in the history: %+v, %v", readable, records, err)
		}
	}
}

// "suspend" and "disable" are in force at once on a server that cannot write its store, say so, and are written when that is
// possible; what people apply afterwards counts.
func TestPeopleStopUpdatesWithoutADisk(t *testing.T) {
	for _, mode := range []string{"suspended", "disabled"} {
		w, r, failing, _ := braking(t)
		a := newAdminSocket(t, admin.Options{Stored: r.stored, Store: failing, Engine: r.engine, Fleet: r.fleet, Log: w.options.Log})
		failing.fail = true
		status, body := a.do("POST", "/v1/brake", `{"mode":"`+mode+`","reason":"it breaks hosts"}`)
		if status != http.StatusServiceUnavailable || !strings.Contains(body, "in force on this server only, not yet written") {
			t.Errorf("%d %s", status, body)
		}
		if r.told() {
			t.Error("hosts are told to update")
		}
		if status, body := a.do("GET", "/v1/overview", ""); status != http.StatusOK || !strings.Contains(body, `"blocked":["the mode `+mode) ||
			!strings.Contains(body, `"state":"`+mode+`","sentence"`) || !strings.Contains(body, `"mode":"`+mode+`"`) {
			t.Errorf("status says %d %.2000s", status, body)
		}
		failing.fail = false
		r.watchUntilWritten()
		there, err := r.stored.Get(t.Context(), rollout.KindConfig, "")
		if err != nil || string(there.(*rollout.Config).Spec.Agents.Mode) != mode || r.told() {
			t.Errorf("%v: the mode is %+v", err, there)
		}
		records, err := w.store.History(t.Context(), 1)
		if err != nil || records[0].Why != "it breaks hosts" || !strings.Contains(records[0].What, mode) {
			t.Errorf("%v %+v", err, records)
		}
		if status, _ := a.do("POST", "/v1/brake", `{"mode":"enabled"}`); status != http.StatusBadRequest {
			t.Errorf("the brake takes enabled: %d", status)
		}
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
	if _, err := r.engine.Tick(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 30s ago") || looks != 4 {
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
