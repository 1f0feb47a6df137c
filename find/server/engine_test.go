package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
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
	fleet  *Fleet
	stored *Stored
	engine *Engine
}

// control opens a server on the world's store.
func (w *storeWorld) control(c *clock, s store.Store) *control {
	w.t.Helper()
	options := w.options
	options.Store, options.Clock = s, c.Now
	stored, err := NewStored(w.t.Context(), options)
	if err != nil {
		w.t.Fatal(err)
	}
	fleet := NewFleet(c.Now().Add(-rollout.PresentFor), options.Base.Jitter)
	return &control{t: w.t, clock: c, fleet: fleet, stored: stored, engine: NewEngine(EngineOptions{Stored: stored, Inventory: fleet, Log: options.Log})}
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
		if _, err := c.stored.Apply(t.Context(), parseAll(t, text), ApplyOptions{Who: "uid 0", Why: "a release"}); err != nil {
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
	apply(regular)
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
	c.fleet.started = clock.Now()
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
	if got, want := strings.Join(history, "\n"), `11:00 uid 0: apply (a release)
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
	w.write(regular)
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
	for name, change := range map[string]string{"the config": suspended, "the version": strings.Replace(regular, "17.2.1", "17.3.0", 1)} {
		t.Run(name, func(t *testing.T) {
			w := newStoreWorld(t)
			clock := newClock()
			w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 12}"))
			w.write(regular)
			c := w.control(clock, w.store)
			c.tick()
			clock.pass(time.Hour)
			times := 0
			c.engine.opts.Inventory = inventoryFunc(func(r *rollout.Rollout, plans map[string]*rollout.Index, now time.Time) rollout.Counts {
				if times++; times == 1 {
					w.write(change) // after the engine has looked
				}
				return c.fleet.Counts(r, plans, now)
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

type inventoryFunc func(*rollout.Rollout, map[string]*rollout.Index, time.Time) rollout.Counts

func (f inventoryFunc) Counts(r *rollout.Rollout, plans map[string]*rollout.Index, now time.Time) rollout.Counts {
	return f(r, plans, now)
}

// Example 7 of the design: two engines capture a plan at once → one head, no
// unreachable pages left.
func TestTwoEnginesCaptureAPlanAtOnce(t *testing.T) {
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: prod, days: ['*'], start_hour: 12, max_in_flight: 10%}"))
	w.write(regular)
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
		c.engine.opts.Inventory = inventoryFunc(func(r *rollout.Rollout, plans map[string]*rollout.Index, now time.Time) rollout.Counts {
			once.Do(func() {
				met.Done()
				met.Wait() // both have seen the same state
			})
			return c.fleet.Counts(r, plans, now)
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
			if got := c.stored.AnswerTo(rollout.Query{Group: "prod", Host: host}).AutoUpdate; got != (place < 600) {
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
	both[0].clock.pass(rollout.PlanLife + time.Minute)
	both[0].tick()
	if left, _, _ := w.store.List(t.Context(), rollout.KindPlan); len(left) > 0 {
		t.Errorf("%d items have not expired", len(left))
	}
}

func TestAPlanThatCannotBeReadAdmitsNobody(t *testing.T) {
	w := newStoreWorld(t)
	clock := newClock()
	w.write(enabledGroups("{name: prod, days: ['*'], start_hour: 12, max_in_flight: 100%}"))
	w.write(regular)
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
	if records, _ := w.store.History(t.Context(), 1); len(records) != 1 || records[0].Who != "uid 0" || !strings.HasPrefix(records[0].What, "retry prod") || records[0].Why != "the store was damaged" {
		t.Errorf("the history: %+v", records)
	}
}

func TestAnOrderIsADryRunOrIsWrittenOrIsRefused(t *testing.T) {
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 12}"))
	w.write(regular)
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

// An engine without its store says so, and hosts get the answers of before; but a
// window that ends meanwhile ends.
func TestAWindowEndsWithoutTheStore(t *testing.T) {
	w := newStoreWorld(t)
	clock := newClock()
	w.write(strings.Replace(enabledGroups("{name: dev, days: ['*'], start_hour: 11}"), "mode: enabled", "mode: enabled, strategy: time-based, maintenance_window_duration: 2h", 1))
	w.write(regular)
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
	a := newAdminSocket(t, AdminOptions{Stored: c.stored, Engine: c.engine, Log: w.options.Log})
	if status, body := a.do("GET", "/v1/status", ""); status != 200 || !strings.Contains(body, `"snapshot_age_seconds":3600,"store_error":"the store`) || !strings.Contains(body, `"engine_error":"the store`) {
		t.Errorf("%d %s", status, body)
	}
	if !told() {
		t.Error("without the store hosts are told something else")
	}
	clock.pass(time.Hour - time.Second)
	if !told() {
		t.Error("the window ends too early")
	}
	clock.pass(time.Second)
	if told() {
		t.Error("hosts are told to update after the window")
	}
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
	c.engine.opts.Inventory = inventoryFunc(func(r *rollout.Rollout, plans map[string]*rollout.Index, now time.Time) rollout.Counts {
		looks <- true
		return c.fleet.Counts(r, plans, now)
	})
	ctx, stop := context.WithCancel(t.Context())
	ticks, done := make(chan time.Time), make(chan bool)
	go func() {
		defer close(done)
		c.engine.Run(ctx, ticks)
	}()
	w.write(regular)
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

func TestClientToolsAreToldWhatTheResourcesSay(t *testing.T) {
	tools := func(s string) string { return strings.Replace(enabled, "spec: {", "spec: {tools: {mode: "+s+"}, ", 1) }
	for name, tc := range map[string]struct {
		config, version string
		want            find.Answer
	}{
		"nothing":             {enabled, immediate, find.Answer{}},
		"enabled":             {tools("enabled"), immediate, find.Answer{ToolsAutoUpdate: true}},
		"disabled":            {tools("disabled"), immediate, find.Answer{}},
		"a version":           {tools("enabled"), strings.Replace(immediate, "spec: {", "spec: {tools: {target_version: v17.1.0}, ", 1), find.Answer{ToolsAutoUpdate: true, ToolsVersion: "17.1.0"}},
		"without any version": {tools("enabled"), "", find.Answer{ToolsAutoUpdate: true}},
	} {
		w := newStoreWorld(t)
		w.options.Log = slog.New(slog.DiscardHandler)
		for _, r := range []string{tc.config, tc.version} {
			if r != "" {
				w.write(r)
			}
		}
		a := w.open().AnswerTo(rollout.Query{})
		if a.ToolsAutoUpdate != tc.want.ToolsAutoUpdate || a.ToolsVersion != tc.want.ToolsVersion {
			t.Errorf("%s: %+v", name, a)
		}
		body, err := a.Body()
		if want := fmt.Sprintf(`"tools_version":"%s","tools_autoupdate":%t`, cmp.Or(tc.want.ToolsVersion, a.Version), tc.want.ToolsAutoUpdate); err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s, %v; want %s", name, body, err, want)
		}
	}
}
