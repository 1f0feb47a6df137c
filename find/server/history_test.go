package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/driver"
	"teleport-update/find/store"
)

// Two servers on one store: each is paused between what it has counted and what it writes, a person changes the mode and gives
// orders, the clock of one server is set off by 15 days and back, and the store is replaced by an older copy, in any order and
// inside of one another. The history is one that a single engine could have made: each rollout is what Next or an order makes
// of the resources that are in the store, and of counts that are not older than half a minute; and it is a legal one. No host
// is refused for another's sake, none that reports is missing in the end, the last verdict that was acknowledged is known, and
// each page of a plan belongs to a plan.
//
// FAULTS=all makes a thousand runs. SERVER_RUNS sets how many runs there are, SERVER_SEED repeats them.
func TestAHistoryOfTwoServers(t *testing.T) {
	runs := uint64(8)
	if testing.Short() {
		runs = 3
	}
	if os.Getenv("FAULTS") == "all" {
		runs = 1000
	}
	runs, seed := envNumber(t, "SERVER_RUNS", runs), envNumber(t, "SERVER_SEED", rand.Uint64())
	t.Logf("SERVER_SEED=%d", seed)
	covered := make(map[string]int)
	for run := range runs {
		passed := t.Run(fmt.Sprint(run), func(t *testing.T) { // each closes and removes its store, which has 8 MB
			a := newActs(t, seed, run)
			for step := 0; step < 60 && !t.Failed(); step++ {
				a.step()
			}
			a.end()
			if t.Failed() {
				t.Fatalf("SERVER_SEED=%d, run %d\n%s", seed, run, strings.Join(a.told, "\n"))
			}
			for what, n := range a.covered {
				covered[what] += n
			}
		})
		if !passed {
			break
		}
	}
	t.Logf("%d runs: %v", runs, covered)
	for what, atLeast := range map[string]uint64{"rollout": 8, "paused": 8, "paused for long": 8, "another time": 8, "replaced": 8, "replaced while paused": 8,
		"mode changed": 8, "mode changed while paused": 40, "order": 8, "verdict": 8} { // in so many runs
		if covered[what] == 0 && runs >= atLeast {
			t.Errorf("in %d runs never: %s", runs, what)
		}
	}
}

// acts is one run.
type acts struct {
	*rand.Rand
	t       *testing.T
	w       *storeWorld
	right   *clock
	off     time.Duration // the second server's clock is
	servers []*actor
	copied  string // of the store; empty for none
	there   map[string]store.Item
	kept    map[string]store.Item // what is in the copy
	paused  bool                  // an engine is
	// suspended: updates are, by a person.
	suspended bool
	version   map[int]rollout.Semver
	said      map[int]int // verdicts
	covered   map[string]int
	told      []string
}

// actor is a server, as a store that notes what its engine writes.
type actor struct {
	*reportWorld
	*store.SQLite
	a    *acts
	from computed
}

func newActs(t *testing.T, seed, run uint64) *acts {
	a := &acts{
		Rand: rand.New(rand.NewPCG(seed, run)), t: t, w: newStoreWorld(t), right: newClock(), there: make(map[string]store.Item),
		version: make(map[int]rollout.Semver), said: make(map[int]int), covered: make(map[string]int),
	}
	a.w.options.Log = slog.New(slog.DiscardHandler)
	a.w.write(enabledGroups(fmt.Sprintf("{name: g0, days: ['*'], start_hour: 11, max_in_flight: %d, max_failed_before_halt: 60%%, max_timeout_before_halt: 30%%}, "+
		"{name: g1, days: ['*'], start_hour: 12, canary_count: %d, max_failed_before_halt: 60%%}", 1+a.IntN(4), a.IntN(3))))
	a.w.write(scheduled)
	for i, handle := range []*store.SQLite{a.w.store, a.w.other} {
		s := &actor{SQLite: handle, a: a}
		clock := a.right
		if i == 1 {
			clock = newClock()
		}
		s.reportWorld = a.w.reporting(clock, s)
		options := s.driven
		options.StoreClock = func(context.Context) (time.Time, error) { return a.right.Now(), nil }
		options.Inventory = s
		s.engine = driver.NewEngine(options)
		a.servers = append(a.servers, s)
	}
	first := a.servers[0]
	a.servers[1].secrets, a.servers[1].last = first.secrets, first.last
	token := first.token("all")
	for i := range 8 {
		first.joined(token, fmt.Sprint("g", i%2), i)
		a.version[i] = "17.2.0"
	}
	if err := a.servers[1].fleet.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, item := range a.resources() {
		a.there[item.Key] = item
	}
	return a
}

func (a *acts) resources() []store.Item {
	items, err := resourcesIn(a.t.Context(), a.w.other)
	if err != nil {
		a.t.Fatal(err)
	}
	return items
}

func (a *acts) log(format string, args ...any) {
	a.told = append(a.told, a.right.Now().Format("02 15:04:05 ")+fmt.Sprintf(format, args...))
}

func (a *acts) pass(d time.Duration) {
	a.right.pass(d)
	a.servers[1].clock.pass(d)
}

// Counting implements driver.Inventory, and notes what was counted.
func (s *actor) Counting(r *rollout.Rollout, plans map[string]*rollout.Index, now time.Time, do func(rollout.Counts)) {
	s.fleet.Counting(r, plans, now, func(n rollout.Counts) {
		s.from.counts, s.from.now = n, now
		do(n)
	})
}

// CompleteAt implements driver.Inventory.
func (s *actor) CompleteAt() time.Time { return s.fleet.CompleteAt() }

// Commit is where an engine is paused, which others use.
func (s *actor) Commit(ctx context.Context, c store.Change) ([]store.Revision, error) {
	of := slices.IndexFunc(c.Writes, func(w store.Write) bool { return w.Key == rollout.KindRollout })
	if of < 0 {
		return s.SQLite.Commit(ctx, c)
	}
	if !s.a.paused && s.a.IntN(3) == 0 {
		s.a.pause(s)
	}
	if !c.Deadline.IsZero() && s.a.right.Now().After(c.Deadline) {
		return nil, store.ErrLate // the clock of this store is that of the test
	}
	c.Deadline = time.Time{}
	revisions, err := s.SQLite.Commit(ctx, c)
	if err == nil {
		s.a.written(s, c, revisions[of], of)
	}
	return revisions, err
}

// pause has the others go on while an engine stands still.
func (a *acts) pause(s *actor) {
	a.paused = true
	defer func() { a.paused = false }()
	from := s.from
	d := []time.Duration{time.Second, 25 * time.Second, 40 * time.Second, 10 * time.Minute}[a.IntN(4)]
	a.log("an engine is paused for %s", d)
	a.covered["paused"]++
	if d > 30*time.Second {
		a.covered["paused for long"]++
	}
	a.pass(d)
	if a.IntN(2) == 0 && a.replace() {
		a.covered["replaced while paused"]++
	}
	if !a.suspended && a.IntN(2) == 0 && a.changeMode() {
		a.covered["mode changed while paused"]++
	}
	for _, other := range a.servers {
		if other != s {
			a.reports()
			a.tick(other)
		}
	}
	s.from = from
}

// written compares what an engine has written with what it was to be written over.
func (a *acts) written(s *actor, c store.Change, revision store.Revision, of int) {
	before := maps.Clone(a.there)
	item := store.Item{Key: rollout.KindRollout, Value: c.Writes[of].Value, Revision: revision}
	based := 0
	for _, w := range c.Writes {
		if !slices.Contains(resourceKinds, w.Key) {
			continue
		}
		based++
		if before[w.Key].Revision != w.Based {
			a.t.Errorf("the rollout of revision %d is based on %s of revision %d, and there is %d", revision, w.Key, w.Based, before[w.Key].Revision)
		}
	}
	if based != len(resourceKinds) {
		a.t.Errorf("the rollout of revision %d is based on %d resources of %d", revision, based, len(resourceKinds))
	}
	a.there[rollout.KindRollout] = item
	a.covered["rollout"]++
	a.log("revision %d by %s: %s", revision, c.Audit.Who, c.Audit.What)
	if age := a.right.Now().Sub(s.from.now); s.from.order == nil && before[rollout.KindRollout].Revision != store.None && age > 30*time.Second {
		a.t.Errorf("the rollout of revision %d follows from counts of %s ago", revision, age)
	}
	if problem := follows(a.t, before, item, c.Audit, s.from); problem != "" {
		a.t.Errorf("the rollout of revision %d: %s", revision, problem)
	}
}

func (a *acts) tick(s *actor) {
	s.from = computed{}
	_, err := s.engine.Tick(a.t.Context())
	_, skewed := errors.AsType[*driver.SkewError](err)
	_, conflict := errors.AsType[*store.ConflictError](err)
	late := errors.Is(err, store.ErrLate) || errors.Is(err, store.ErrReplaced) // it was paused at each attempt
	if err != nil && !skewed && !conflict && !late && !strings.Contains(err.Error(), "nothing follows from it") {
		a.t.Errorf("a tick: %v", err)
	}
	if skewed != (s == a.servers[1] && a.off != 0) {
		a.t.Errorf("the clock is off by %s, and the tick says %v", a.off, err)
	}
	if err := s.stored.Refresh(a.t.Context()); err != nil {
		a.t.Error(err)
	}
}

// reports has each host ask one server, and report to any.
func (a *acts) reports() {
	for i := range len(a.version) {
		if a.IntN(4) == 0 {
			continue
		}
		group := fmt.Sprint("g", i%2)
		asked, reported := a.servers[a.IntN(2)], a.servers[a.IntN(2)]
		answer := asked.stored.AnswerTo(rollout.Query{Group: group, Host: hostUUID(i)})
		edit := func(b *find.Heartbeat) {
			if answer.AutoUpdate {
				b.Told = answer.Version
			}
		}
		outcome := a.IntN(4)
		switch {
		case answer.AutoUpdate && outcome == 0:
			a.said[i]++
			before, say := edit, verdict(a.said[i])
			edit = func(b *find.Heartbeat) { before(b); say(b) }
			a.covered["verdict"]++
		case answer.AutoUpdate && outcome < 3:
			a.version[i] = rollout.Semver(answer.Version)
		default:
			outcome = -1
		}
		status, said := reported.says(i, group, string(a.version[i]), edit)
		if status == http.StatusTooManyRequests && outcome == 0 {
			a.said[i]--
		}
		if status != http.StatusOK && status != http.StatusTooManyRequests {
			a.t.Errorf("the report of host %d: %d %s", i, status, said.Error)
		}
	}
}

// replace takes a copy of the store, or puts it in its place.
func (a *acts) replace() (replaced bool) {
	if a.copied == "" {
		a.copied = copyStore(a.t, a.w.path)
		a.kept = maps.Clone(a.there)
		a.log("the store is copied")
		return false
	}
	replaceStore(a.t, a.w.path, a.copied)
	a.copied, a.there = "", a.kept
	a.log("the store is replaced by its copy")
	a.covered["replaced"]++
	return true
}

func (a *acts) step() {
	d := []time.Duration{time.Second, 10 * time.Second, 10 * time.Second, time.Minute, 9 * time.Minute}[a.IntN(5)]
	if a.IntN(30) == 0 {
		d = time.Hour
	}
	a.pass(d)
	switch a.IntN(12) {
	case 0:
		a.replace()
	case 1:
		was := a.off
		a.off = []time.Duration{0, 15 * 24 * time.Hour, -15 * 24 * time.Hour}[a.IntN(3)]
		a.servers[1].clock.pass(a.off - was)
		a.log("the clock is off by %s", a.off)
		if a.off != 0 {
			a.covered["another time"]++
		}
	case 2:
		a.order(a.servers[0])
	case 3:
		a.changeMode()
	}
	if a.suspended && a.IntN(2) == 0 {
		a.changeMode()
	}
	a.reports()
	for _, i := range a.Perm(2) {
		if err := a.servers[i].fleet.Tick(a.t.Context()); err != nil {
			a.t.Errorf("the hosts: %v", err)
		}
		a.tick(a.servers[i])
	}
}

// order is one of a person, which nobody pauses.
func (a *acts) order(s *actor) {
	o := rollout.Order{Who: "somebody", Verb: []rollout.Verb{rollout.StartUpdate, rollout.MarkDone, rollout.Rollback, rollout.Retry, rollout.Reset}[a.IntN(5)],
		Groups: []string{fmt.Sprint("g", a.IntN(2))}, Force: a.IntN(2) == 0}
	if o.Verb == rollout.Reset {
		o.Groups = nil
	}
	if o.Verb != rollout.StartUpdate {
		o.Force = false
	}
	a.paused = true
	defer func() { a.paused = false }()
	s.from = computed{order: &o}
	_, err := s.engine.Order(a.t.Context(), o, false)
	if _, refused := errors.AsType[*rollout.RefusedError](err); err != nil && !refused {
		a.t.Errorf("%s: %v", o.Verb, err)
	}
	a.covered["order"]++
}

// changeMode is a person who suspends updates, or enables them again.
func (a *acts) changeMode() (changed bool) {
	server := a.servers[0].stored
	r, err := server.Get(a.t.Context(), rollout.KindConfig, "")
	if err == nil {
		mode := &r.(*rollout.Config).Spec.Agents.Mode
		a.suspended = *mode != "suspended"
		*mode = "enabled"
		if a.suspended {
			*mode = "suspended"
		}
		_, err = server.Apply(a.t.Context(), []rollout.Resource{r}, answers.ApplyOptions{})
	}
	if errors.Is(err, store.ErrReplaced) {
		return false // the server has not read the copy yet
	}
	if err != nil {
		a.t.Errorf("change the mode: %v", err)
		return false
	}
	for _, item := range a.resources() {
		a.there[item.Key] = item
	}
	a.log("updates are suspended: %t", a.suspended)
	a.covered["mode changed"]++
	return true
}

// end brings the clocks together, and looks at what is left of all of it.
func (a *acts) end() {
	if problem := unreachable(a.t, a.w.other); problem != "" {
		a.t.Error(problem)
	}
	a.servers[1].clock.pass(-a.off)
	a.off = 0
	for range 30 {
		a.pass(time.Minute)
		for i := range len(a.version) {
			if status, said := a.servers[a.IntN(2)].says(i, fmt.Sprint("g", i%2), string(a.version[i]), nil); status != http.StatusOK {
				a.t.Errorf("in the end, the report of host %d: %d %s", i, status, said.Error)
			}
		}
		for _, s := range a.servers {
			if err := s.fleet.Tick(a.t.Context()); err != nil {
				a.t.Errorf("in the end, the hosts: %v", err)
			}
		}
	}
	for n, s := range []*reportWorld{a.servers[0].reportWorld, a.servers[1].reportWorld, a.servers[0].again(a.w.other)} {
		for i, want := range a.said {
			if e, _ := s.fleet.Entry(rollout.ParseHostID(hostUUID(i))); want > 0 && e.Failed.Error != fmt.Sprint("verdict ", want) {
				a.t.Errorf("at server %d the last verdict of host %d is %q; want that of %d", n, i, e.Failed.Error, want)
			}
		}
		current, err := answers.ReadResources(a.t.Context(), a.w.other)
		if err != nil || current.Rollout == nil {
			a.t.Errorf("%v: %+v", err, current.Rollout)
			continue
		}
		if n == 2 {
			a.right.pass(time.Minute) // it has just heard of them
		}
		counts := countsOf(s.fleet, current.Rollout, a.right.Now())
		present := 0
		for _, g := range counts.Groups {
			present += g.Present
		}
		if present != len(a.version) {
			a.t.Errorf("at server %d, %d of %d hosts are present: %v at %s\n%s", n, present, len(a.version), counts.Omitted, a.right.Now(), s.everything())
		}
	}
}
