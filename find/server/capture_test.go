package server

import (
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// Example 7 of the design: two engines capture a plan at once → one head, no
// unreachable pages left.
// The others of the worked examples need no store.
func TestWorkedExamples(t *testing.T) {
	t.Run("7. Two engines capture a plan at once → one head, no unreachable pages left", captureAtOnce)
}

func captureAtOnce(t *testing.T) {
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: prod, days: ['*'], start_hour: 12, max_in_flight: 10%}"))
	w.write(scheduled)
	var both []*control
	var met sync.WaitGroup
	met.Add(2)
	for i, s := range []store.Store{w.store, w.other} {
		clock := newClock()
		clock.pass(time.Duration(i) * time.Second) // so that their orders differ
		c := w.control(clock, s)
		for i := range 6000 {
			c.fleet.Take(rollout.Heartbeat{HostID: hostUUID(i), Group: "prod", Version: "17.2.0"}, clock.Now())
		}
		both = append(both, c)
	}
	both[0].tick()
	for _, c := range both {
		c.clock.pass(time.Hour)
		for i := range 6000 {
			c.fleet.Take(rollout.Heartbeat{HostID: hostUUID(i), Group: "prod", Version: "17.2.0"}, c.clock.Now())
		}
		c.clock.pass(2 * time.Minute)
		var once sync.Once
		c.counting(func(r *rollout.Rollout, plans map[string]*rollout.Index, now time.Time, do func(rollout.Counts)) {
			once.Do(func() {
				met.Done()
				met.Wait() // both have seen the same state
			})
			c.fleet.Counting(r, plans, now, do)
		})
	}
	done := make(chan error)
	for _, c := range both {
		go func() {
			_, err := c.engine.Tick(t.Context())
			done <- err
		}()
	}
	for range both {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	items, _, err := w.store.List(t.Context(), rollout.KindPlan)
	if err != nil {
		t.Fatal(err)
	}
	there := make(map[string][]byte)
	for _, item := range items {
		there[item.Key] = item.Value
	}
	plan, names, err := rollout.ReadPlan(there[rollout.PlanKey("prod")], func(name string) ([]byte, error) {
		if page, ok := there[rollout.PageKey(name)]; ok {
			return page, nil
		}
		return nil, store.ErrNotFound
	})
	if err != nil || len(plan.Hosts) != 6000 {
		t.Fatalf("the plan: %v", err)
	}
	if len(names) != 2 || len(items) != 1+len(names) {
		t.Errorf("%d pages of %d items can be reached", 1+len(names), len(items))
	}
	starts := 0
	records, _ := w.store.History(t.Context(), 100)
	for _, r := range records {
		if strings.Contains(r.What, "prod unstarted → active") && r.Key == rollout.KindRollout {
			starts++
		}
	}
	if starts != 1 {
		t.Errorf("prod has started %d times", starts)
	}
	for _, c := range both {
		c.tick()
		if err := c.stored.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		for place, host := range plan.Hosts[:700] {
			if got := c.stored.AnswerTo(rollout.Query{Group: "prod", Host: host.String()}).AutoUpdate; got != (place < 600) {
				t.Fatalf("place %d is told %v; %+v", place, got, c.rollout().Status.Groups[0].Plan)
			}
		}
	}

	// The next plan replaces it, with its pages.
	if _, err := both[0].engine.Order(t.Context(), rollout.Order{Verb: rollout.Reset}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := both[0].engine.Order(t.Context(), rollout.Order{Verb: rollout.StartUpdate, Groups: []string{"prod"}}, false); err != nil {
		t.Fatal(err)
	}
	if again, _, _ := w.store.List(t.Context(), rollout.KindPlan); len(again) != 3 || again[1].Key == items[1].Key {
		t.Errorf("%d items are left of two plans", len(again))
	}
	// And two weeks later they are gone.
	both[0].clock.pass(14*24*time.Hour + time.Minute)
	both[0].tick()
	if left, _, _ := w.store.List(t.Context(), rollout.KindPlan); len(left) > 0 {
		t.Errorf("%d items have not expired", len(left))
	}
}

func TestAPlanThatCannotBeReadAdmitsNobody(t *testing.T) {
	w := newStoreWorld(t)
	clock := newClock()
	w.write(enabledGroups("{name: prod, days: ['*'], start_hour: 12, max_in_flight: 100%}"))
	w.write(scheduled)
	c := w.control(clock, w.store)
	hosts := func() (told int) {
		for i := range 3000 {
			if c.stored.AnswerTo(rollout.Query{Group: "prod", Host: hostUUID(i)}).AutoUpdate {
				told++
			}
			c.fleet.Take(rollout.Heartbeat{HostID: hostUUID(i), Group: "prod", Version: "17.2.0"}, clock.Now())
		}
		return told
	}
	hosts()
	clock.pass(time.Hour)
	hosts()
	clock.pass(2 * time.Minute)
	for c.tick() {
	}
	if told := hosts(); told != 3000 {
		t.Fatalf("%d hosts are told to update", told)
	}
	pages, _, err := w.other.List(t.Context(), rollout.PageKey(""))
	if err != nil || len(pages) != 1 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	if err := w.other.Delete(t.Context(), pages[0].Key, pages[0].Revision); err != nil {
		t.Fatal(err)
	}
	fresh := w.control(clock, w.other) // whoever has read the plan still has it
	for i := range 3000 {
		fresh.fleet.Take(rollout.Heartbeat{HostID: hostUUID(i), Group: "prod", Version: "17.2.0"}, clock.Now().Add(-2*time.Minute))
	}
	c = fresh
	if told := hosts(); told > 0 {
		t.Errorf("%d hosts are told to update", told)
	}
	if log := w.log.String(); strings.Count(log, "the plan of a group cannot be read") != 1 || !strings.Contains(log, "page 1: it is not there") {
		t.Errorf("the log:\n%s", log)
	}
	c.tick()
	if got := c.states(); got != "active?PlanBroken" {
		t.Errorf("the group is %s", got)
	}
	if _, err := c.engine.Order(t.Context(), rollout.Order{Verb: rollout.Retry, Groups: []string{"prod"}, Who: "uid 0", Why: "the store was damaged"}, false); err != nil {
		t.Fatal(err)
	}
	clock.pass(10 * time.Second)
	c.tick()
	if told := hosts(); told != 3000 || c.states() != "active" {
		t.Errorf("after the retry the group is %s, and %d hosts are told to update", c.states(), told)
	}
	if records, _ := w.store.History(t.Context(), 1); len(records) != 1 || records[0].Who != "uid 0" || !strings.HasPrefix(records[0].What, "rollout retry prod") || records[0].Why != "the store was damaged" {
		t.Errorf("the history: %+v", records)
	}
}
