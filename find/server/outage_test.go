package server

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/admin"
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
