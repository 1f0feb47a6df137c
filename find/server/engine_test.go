package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/inventory"
	"teleport-update/find/store"
)

// A version goes through two groups and two servers, one of which starts in the
// middle of it.
func TestARolloutFromGroupToGroup(t *testing.T) {
	w := newStoreWorld(t)
	clock := newClock()
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 12, canary_count: 1}, {name: prod, days: ['*'], start_hour: 14, max_in_flight: 2}"))
	c := w.control(clock, w.store)
	apply := func(text string) {
		t.Helper()
		if _, err := c.stored.Apply(t.Context(), parseAll(t, text), answers.ApplyOptions{Who: "uid 0", Why: "a release"}); err != nil {
			t.Fatal(err)
		}
	}
	versions := make(map[int]rollout.Semver)
	group := func(i int) string { return []string{"dev", "prod"}[i/4] }
	for i := range 8 {
		versions[i] = "17.2.0"
	}
	hosts := func(c *control) (told int) {
		for i := range 8 {
			if a := c.report(i, group(i), versions[i], nil); a.AutoUpdate {
				told++
				versions[i] = rollout.Semver(a.Version)
			}
		}
		return told
	}
	want := func(states string) {
		t.Helper()
		if got := c.states(); got != states {
			t.Fatalf("%s: the groups are %s; want %s\n%s", clock.Now().Format("Mon 15:04:05"), got, states, w.log.String())
		}
	}
	apply(scheduled)
	if told := hosts(c); told > 0 || c.stored.AnswerTo(rollout.Query{}).Version != "17.2.0" {
		t.Errorf("before the rollout has begun, %d hosts are told to update", told)
	}
	if !c.tick() || c.tick() {
		t.Error("a new rollout is written once")
	}
	want("unstarted unstarted")
	for range 6 {
		clock.pass(10 * time.Minute)
		hosts(c)
	}
	c.tick()
	want("canary unstarted")
	if told := hosts(c); told != 1 {
		t.Errorf("%d hosts are told to update; want the canary", told)
	}
	hosts(c)
	c.tick()
	want("active unstarted")
	if told := hosts(c); told != 4 {
		t.Errorf("%d hosts are told to update; want the group", told)
	}
	hosts(c)
	c.tick()
	want("done unstarted")
	before := c.rollout().Metadata.Revision
	for range 12 {
		clock.pass(10 * time.Minute)
		hosts(c)
		c.tick()
	}
	want("done active")
	if after := c.rollout(); after.Status.Groups[1].Plan.HostCount != 4 || after.Metadata.Revision == before {
		t.Errorf("%+v", after.Status.Groups[1])
	}

	// Another server goes on, once hosts have had time to report to it.
	first := c
	c = w.control(clock, w.other)
	c.fleet = inventory.NewFleet(clock.Now(), 0)
	c.counting(c.fleet.Counting)
	hosts(c)
	c.tick()
	if plan := c.rollout().Status.Groups[1].Plan; plan.LastActiveHostIndex != -1 || !c.engine.Status().Waiting {
		t.Errorf("a server that has seen nothing yet admits hosts: %+v", plan)
	}
	for range 3 {
		clock.pass(10 * time.Minute)
		hosts(c)
		c.tick()
	}
	for round := 0; c.states() != "done done"; round++ {
		if round > 20 {
			t.Fatalf("it does not end: %s\n%s", c.states(), w.log.String())
		}
		clock.pass(10 * time.Second)
		hosts(c)
		c.tick()
	}
	for i, v := range versions {
		if v != "17.2.1" {
			t.Errorf("host %d runs %s", i, v)
		}
	}
	if err := first.stored.Refresh(t.Context()); err != nil || !first.stored.AnswerTo(rollout.Query{Group: "prod", Host: hostUUID(99)}).AutoUpdate {
		t.Errorf("the first server does not follow: %v", err)
	}

	// All of it is known afterwards, and who did what.
	records, err := w.other.History(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	var history []string
	for _, r := range slices.Backward(records) {
		if r.Key == rollout.KindRollout || r.Key == rollout.KindVersion {
			history = append(history, fmt.Sprintf("%s %s: %s (%s)", r.Time.Format("15:04"), r.Who, r.What, r.Why))
		}
	}
	if got, want := strings.Join(history, "\n"), `11:00 uid 0: apply: start version 17.2.0, target 17.2.1 (a release)
11:00 engine: a new rollout (new_version) ()
12:00 engine: dev unstarted → canary (in_window) ()
12:00 engine: dev canary → active (canaries_done) ()
12:00 engine: dev active → done (update_complete) ()
14:00 engine: prod unstarted → active (in_window) ()
14:3`; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "engine: prod active → done (update_complete) ()") || len(history) != 7 {
		t.Errorf("the history is\n%s", got)
	}
}

func TestATickWithoutChangeWritesNothing(t *testing.T) {
	w := newStoreWorld(t)
	clock := newClock()
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 11, max_in_flight: 1}"))
	w.write(scheduled)
	c := w.control(clock, w.store)
	for i := range 5 {
		c.report(i, "dev", "17.2.0", nil)
	}
	clock.pass(2 * time.Minute)
	for c.tick() {
	}
	head := func() store.Revision {
		_, at, err := w.other.List(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	before := head()
	for range 50 {
		clock.pass(time.Second)
		if c.tick() {
			t.Fatal("it says that it has written")
		}
	}
	if after := head(); after != before {
		t.Errorf("the store went from revision %d to %d", before, after)
	}
	if status := c.engine.Status(); !status.LastTick.Equal(clock.Now()) || status.Err != nil || status.Waiting {
		t.Errorf("the status is %+v", status)
	}
}

// Whoever sees resources that others change meanwhile writes nothing.
func TestAStepIsBasedOnAllThatItWasComputedFrom(t *testing.T) {
	for name, change := range map[string]string{"the config": suspended, "the version": strings.Replace(scheduled, "17.2.1", "17.3.0", 1)} {
		t.Run(name, func(t *testing.T) {
			w := newStoreWorld(t)
			clock := newClock()
			w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 12}"))
			w.write(scheduled)
			c := w.control(clock, w.store)
			c.tick()
			clock.pass(time.Hour)
			times := 0
			c.counting(func(r *rollout.Rollout, plans map[string]*rollout.Index, now time.Time, do func(rollout.Counts)) {
				if times++; times == 1 {
					w.write(change) // after the engine has looked
				}
				c.fleet.Counting(r, plans, now, do)
			})
			c.tick()
			if times != 2 {
				t.Errorf("the engine has looked %d times", times)
			}
			want := map[string]rollout.Semver{"the config": "17.2.1", "the version": "17.3.0"}[name]
			if got := c.rollout().Spec.TargetVersion; got != want || c.states() != "unstarted" {
				t.Errorf("the rollout is of %s, %s; want %s, unstarted", got, c.states(), want)
			}
		})
	}
}

func TestAnOrderIsADryRunOrIsWrittenOrIsRefused(t *testing.T) {
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 12}"))
	w.write(scheduled)
	c := w.control(newClock(), w.store)
	c.tick()
	order := rollout.Order{Verb: rollout.StartUpdate, Groups: []string{"dev"}, Who: "uid 7"}
	result, err := c.engine.Order(t.Context(), order, true)
	if err != nil || len(result.Steps) != 1 || result.Steps[0].To != rollout.Active || c.states() != "unstarted" {
		t.Errorf("a dry run: %+v, %v; the group is %s", result, err, c.states())
	}
	if _, err := c.engine.Order(t.Context(), order, false); err != nil || c.states() != "active" {
		t.Errorf("%v; the group is %s", err, c.states())
	}
	_, err = c.engine.Order(t.Context(), order, false)
	if _, refused := errors.AsType[*rollout.RefusedError](err); !refused {
		t.Errorf("got %v; want a refusal", err)
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
