package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/driver"
	"teleport-update/find/server/inventory"
	"teleport-update/find/store"
)

// clock is a time that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

// newClock begins on a Monday, an hour before noon.
func newClock() *clock { return &clock{now: time.Date(2025, 6, 2, 11, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// control is a server without a network: what answers, and what steps.
type control struct {
	t      *testing.T
	clock  *clock
	fleet  *inventory.Fleet
	stored *answers.Stored
	engine *driver.Engine
	driven driver.Options
}

// counting has the engine count by something else from now on.
func (c *control) counting(f inventoryFunc) {
	options := c.driven
	options.Inventory = f
	c.engine = driver.NewEngine(options)
}

// control opens a server on the world's store.
func (w *storeWorld) control(c *clock, s store.Store) *control {
	w.t.Helper()
	options := w.options
	options.Store, options.Clock = s, c.Now
	stored, err := answers.NewStored(w.t.Context(), options)
	if err != nil {
		w.t.Fatal(err)
	}
	s = stored.Store()
	fleet := inventory.NewFleet(c.Now().Add(-rollout.PresentFor), options.Base.Jitter)
	driven := driver.Options{Store: s, Clock: c.Now, Plans: stored.Plans(), Inventory: fleet, Answers: stored, Log: options.Log}
	return &control{t: w.t, clock: c, fleet: fleet, stored: stored, engine: driver.NewEngine(driven), driven: driven}
}

func hostUUID(i int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", i) }

// report has a host ask and report, after an edit of the report.
func (c *control) report(i int, group string, v rollout.Semver, edit func(*rollout.Heartbeat)) find.Answer {
	c.t.Helper()
	a := c.stored.AnswerTo(rollout.Query{Group: group, Host: hostUUID(i)})
	b := rollout.Heartbeat{HostID: hostUUID(i), Hostname: fmt.Sprint("web-", i), Group: group, Version: v}
	if a.AutoUpdate {
		b.Told = rollout.Semver(a.Version)
	}
	if edit != nil {
		edit(&b)
	}
	if err := b.Check(); err != nil {
		c.t.Fatal(err)
	}
	c.fleet.Take(b, c.clock.Now())
	return a
}

func (c *control) tick() bool {
	c.t.Helper()
	changed, err := c.engine.Tick(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return changed
}

func (c *control) rollout() *rollout.Rollout {
	c.t.Helper()
	r, err := c.stored.Get(c.t.Context(), rollout.KindRollout, "")
	if err != nil {
		c.t.Fatal(err)
	}
	return r.(*rollout.Rollout)
}

func (c *control) states() string {
	var list []string
	for _, g := range c.rollout().Status.Groups {
		state := string(g.State)
		if g.Halted != nil {
			state += "!"
		}
		for _, condition := range g.Conditions {
			state += "?" + string(condition.Type)
		}
		list = append(list, state)
	}
	return strings.Join(list, " ")
}

func enabledGroups(groups string) string {
	return strings.Replace(enabled, "mode: enabled", "mode: enabled, schedules: {regular: ["+groups+"]}", 1)
}

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

type inventoryFunc func(*rollout.Rollout, map[string]*rollout.Index, time.Time, func(rollout.Counts))

func (f inventoryFunc) Counting(r *rollout.Rollout, plans map[string]*rollout.Index, now time.Time, do func(rollout.Counts)) {
	f(r, plans, now, do)
}

func (f inventoryFunc) CompleteAt() time.Time { return time.Time{} }

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
