package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
	"teleport-update/find/store"
)

// Two servers step the rollouts of one store at once, while somebody else changes
// what is wanted: the history is one that a single engine could have made. Each
// rollout that was written is what Next or an order makes of the one before it and
// of the resources as they were at that very revision; and it is a legal one.
//
// There are a thousand runs with FAULTS=all; ENGINES_RUNS sets how many there are, ENGINES_SEED repeats them as far as
// the scheduler does.
func TestTwoEnginesMakeOneHistory(t *testing.T) {
	runs := uint64(40)
	if testing.Short() {
		runs = 8
	}
	if os.Getenv("FAULTS") == "all" {
		runs = 1000
	}
	runs, seed := envNumber(t, "ENGINES_RUNS", runs), envNumber(t, "ENGINES_SEED", rand.Uint64())
	t.Logf("ENGINES_SEED=%d", seed)
	w := newStoreWorld(t)
	w.options.Log = slog.New(slog.DiscardHandler)
	steps := 0
	for i := range runs {
		d := newDuel(t, w, rand.New(rand.NewPCG(seed, i)), i)
		d.run()
		if problem := d.history(); problem != "" {
			t.Fatalf("ENGINES_SEED=%d, run %d: %s", seed, i, problem)
		}
		steps += len(d.writes)
	}
	if steps < int(runs) {
		t.Errorf("only %d writes in %d runs", steps, runs)
	}
}

func envNumber(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// duel is one run.
type duel struct {
	*rand.Rand
	t       *testing.T
	w       *storeWorld
	servers []*control
	initial []store.Item

	mu     sync.Mutex
	writes []written
	last   map[*store.SQLite]computed // of each engine, what its next write is from
}

// written is a change that was acknowledged.
type written struct {
	at        store.Revision // of the last item
	revisions []store.Revision
	change    store.Change
	from      computed
}

// computed is what an engine looked at last.
type computed struct {
	counts rollout.Counts
	now    time.Time
	order  *rollout.Order
}

// recorder notes the changes that get through.
type recorder struct {
	*store.SQLite
	d *duel
}

func (r recorder) Commit(ctx context.Context, c store.Change) ([]store.Revision, error) {
	revisions, err := r.SQLite.Commit(ctx, c)
	if errors.Is(err, sqlite3.BUSY) { // the disk is slow, and another was faster
		err = &store.ConflictError{Key: c.Writes[0].Key}
	}
	if err == nil {
		r.d.mu.Lock()
		defer r.d.mu.Unlock()
		change := store.Change{Audit: c.Audit, Writes: slices.Clone(c.Writes)}
		r.d.writes = append(r.d.writes, written{slices.Max(revisions), revisions, change, r.d.last[r.SQLite]})
	}
	return revisions, err
}

func newDuel(t *testing.T, w *storeWorld, r *rand.Rand, i uint64) *duel {
	d := &duel{Rand: r, t: t, w: w, last: make(map[*store.SQLite]computed)}
	text := ""
	for g := range 1 + d.IntN(3) {
		text += fmt.Sprintf("{name: g%d, days: ['*'], start_hour: %d, canary_count: %d", g, 11+d.IntN(2), max(0, d.IntN(4)-1))
		if d.IntN(2) == 0 {
			text += fmt.Sprintf(", max_in_flight: %d", 1+d.IntN(4))
		}
		if d.IntN(3) == 0 {
			text += fmt.Sprintf(", max_failed_before_halt: %d%%", d.IntN(50))
		}
		text += "}, "
	}
	w.write(enabledGroups(strings.TrimSuffix(text, ", ")))
	v := fmt.Sprintf("18.%d.0", i)
	w.write(strings.NewReplacer("17.2.0", "17.0.0", "17.2.1", v).Replace(scheduled))
	var err error
	if d.initial, err = answers.ReadItems(t.Context(), w.other); err != nil {
		t.Fatal(err)
	}
	clock := newClock()
	for _, s := range []*store.SQLite{w.store, w.other} {
		c := w.control(clock, recorder{s, d})
		c.counting(func(r *rollout.Rollout, plans map[string]*rollout.Index, now time.Time, do func(rollout.Counts)) {
			c.fleet.Counting(r, plans, now, func(n rollout.Counts) {
				d.mu.Lock()
				looked := d.last[s]
				looked.counts, looked.now = n, now
				d.last[s] = looked
				d.mu.Unlock()
				do(n)
			})
		})
		d.servers = append(d.servers, c)
	}
	return d
}

// run has hosts report to both servers, and both engines tick at once.
func (d *duel) run() {
	versions := make([]rollout.Semver, 4+d.IntN(10))
	for i := range versions {
		versions[i] = "17.0.0"
	}
	for range 12 {
		d.servers[0].clock.pass([]time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, 30 * time.Minute}[d.IntN(4)])
		for i := range versions {
			group := fmt.Sprintf("g%d", i%3)
			a := d.servers[d.IntN(2)].stored.AnswerTo(rollout.Query{Group: group, Host: hostUUID(i)})
			var outcome *rollout.Outcome
			told := rollout.Semver("")
			if a.AutoUpdate {
				told = rollout.Semver(a.Version)
				if d.IntN(8) == 0 {
					outcome = &rollout.Outcome{Target: told, State: rollout.OutcomeFailed, Time: d.servers[0].clock.Now()}
				} else if d.IntN(3) > 0 {
					versions[i] = told
				}
			}
			for _, s := range d.servers { // as a report that both get
				s.fleet.Take(rollout.Heartbeat{HostID: hostUUID(i), Group: group, Version: versions[i], Told: told, Outcome: outcome}, s.clock.Now())
			}
		}
		var all sync.WaitGroup
		for i, s := range d.servers {
			var order *rollout.Order
			if d.IntN(8) == 0 {
				order = &rollout.Order{Who: "somebody", Verb: []rollout.Verb{rollout.StartUpdate, rollout.MarkDone, rollout.Rollback, rollout.Retry, rollout.Reset}[d.IntN(5)],
					Groups: []string{fmt.Sprintf("g%d", d.IntN(3))}, Force: d.IntN(2) == 0}
			}
			all.Go(func() {
				d.step(s, order, []*store.SQLite{d.w.store, d.w.other}[i])
			})
		}
		if d.IntN(6) == 0 {
			mode := []string{enabled, suspended}[d.IntN(2)]
			all.Go(func() { d.change(mode) })
		}
		all.Wait()
		for _, s := range d.servers {
			s.stored.Refresh(d.t.Context())
		}
	}
}

func (d *duel) step(s *control, order *rollout.Order, handle *store.SQLite) {
	d.mu.Lock()
	d.last[handle] = computed{order: order}
	d.mu.Unlock()
	var err error
	if order != nil {
		_, err = s.engine.Order(d.t.Context(), *order, false)
	} else {
		_, err = s.engine.Tick(d.t.Context())
	}
	_, refused := errors.AsType[*rollout.RefusedError](err)
	_, late := errors.AsType[*store.ConflictError](err)
	if err != nil && !refused && !late && !errors.Is(err, sqlite3.BUSY) {
		d.t.Error(err)
	}
}

// change is somebody who edits the mode and nothing else.
func (d *duel) change(text string) {
	mode := parseAll(d.t, text)[0].(*rollout.Config).Spec.Agents.Mode
	for {
		r, err := d.servers[0].stored.Get(d.t.Context(), rollout.KindConfig, "")
		if err != nil {
			d.t.Error(err)
			return
		}
		r.(*rollout.Config).Spec.Agents.Mode = mode
		_, err = d.servers[0].stored.Apply(d.t.Context(), []rollout.Resource{r}, answers.ApplyOptions{})
		if _, conflict := errors.AsType[*store.ConflictError](err); !conflict {
			if err != nil && !errors.Is(err, sqlite3.BUSY) {
				d.t.Error(err)
			}
			return
		}
	}
}
