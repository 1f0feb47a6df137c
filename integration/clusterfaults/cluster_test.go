//go:build hosts

// Package clusterfaults runs three find servers on PostgreSQL, a primary and an asynchronous standby, each with a network
// and a disk of its own, while a rollout over simulated hosts goes on. Faults are drawn from a seed: the database is killed,
// stopped, cut off, slow, its disk is full, it fails over to the standby that lacks the last changes; servers are killed,
// paused while they write, cut off, or have another time.
//
// Never are two groups told to update that must not be at once, nor more hosts than max_in_flight; no acknowledged change is
// lost, nor a halt forgotten, without a new epoch; find always answers; changes of an item are linearizable in each epoch.
package clusterfaults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"teleport-update/find/rollout"
	"teleport-update/integration/powercut"
)

var noMounts error

func TestMain(m *testing.M) {
	noMounts = powercut.OwnMounts()
	os.Exit(m.Run())
}

// number is one of the environment.
func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// campaign is what all worlds do together.
type campaign struct {
	first, runs int
	until       time.Time

	mu         sync.Mutex
	begun      int
	violations int
	answers    int
	ops        map[string]int
}

// next is the seed of the next rollout; false: no other one begins.
func (c *campaign) next() (seed int, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := c.begun > 0 && !time.Now().Before(c.until)
	if c.begun == c.runs || c.violations > 0 || late {
		return 0, false
	}
	c.begun++
	return c.first + c.begun - 1, true
}

// play runs rollouts in a world until there are enough.
func (c *campaign) play(t *testing.T, number int) {
	w := newWorld(t, number)
	for {
		seed, more := c.next()
		if !more {
			break
		}
		problems := w.run(seed)
		if len(problems) == 0 {
			continue
		}
		t.Errorf("CLUSTER_SEED=%d:\n%s", seed, strings.Join(problems, "\n"))
		w.logs()
		c.mu.Lock()
		c.violations++
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers += w.answers
	for what, n := range w.ops {
		c.ops[what] += n
	}
}

// CLUSTER_RUNS is how many rollouts there are, CLUSTER_SEED the seed of the first one, CLUSTER_MINUTES after which time no
// other one than the first begins, CLUSTER_WORLDS how many clusters there are at once: a rollout waits more than it computes.
func TestRolloutsOverAClusterThatFails(t *testing.T) {
	if noMounts != nil {
		t.Skip(noMounts)
	}
	began := time.Now()
	c := &campaign{
		first: number("CLUSTER_SEED", int(began.Unix())), runs: number("CLUSTER_RUNS", 1000), ops: make(map[string]int),
		until: began.Add(time.Duration(number("CLUSTER_MINUTES", 1)) * time.Minute),
	}
	t.Run("worlds", func(t *testing.T) {
		for n := range number("CLUSTER_WORLDS", 1) {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				c.play(t, n)
			})
		}
	})
	each := time.Since(began).Seconds() / float64(max(c.begun, 1))
	t.Logf("faults of a cluster: %d rollouts from seed %d, %.1f s each, %v, %d answers, violations: %d",
		c.begun, c.first, each, c.ops, c.answers, c.violations)
}

// run is a rollout. Every third version fails on the hosts of prod.
func (w *world) run(n int) []string {
	r := seed(uint64(n))
	w.linear = &linear{w: w, began: time.Now(), epoch: w.db.failovers, history: make(map[int][]porcupine.Operation)}
	stop := make(chan struct{})
	var all sync.WaitGroup
	w.linear.clients(stop, &all)
	w.ask(stop, &all)
	w.begin(r)
	var now []active
	var last *rollout.Rollout
	for steps := 0; ; steps++ {
		w.pass(step)
		w.look(now)
		if steps%3 == 0 {
			w.polls(r, now)
		}
		if server := r.IntN(servers); r.IntN(12) == 0 {
			w.begins(server, &all)
		}
		now = w.heal(now, false)
		if steps < 60 && r.IntN(5) == 0 {
			now = w.draw(r, now)
		}
		if ofDatabase(now) {
			continue
		}
		w.giveAgain(r)
		last = w.stored()
		w.keepHalted(last)
		if w.over(last) && len(now) == 0 && steps > 10 {
			break
		}
		if steps == 400 {
			w.broke("the rollout does not end")
			break
		}
	}
	w.heal(now, true)
	w.settle(r)
	close(stop)
	all.Wait()
	w.checkEnd(w.stored())
	w.checkMarks()
	w.mu.Lock()
	defer w.mu.Unlock()
	return append(w.broken, w.linear.check()...)
}

// settle is some minutes after the last fault.
func (w *world) settle(r *rand.Rand) {
	for n := range 12 {
		w.pass(step)
		w.look(nil)
		if n%3 == 0 {
			w.polls(r, nil)
		}
		w.keepHalted(w.stored())
	}
}

// begin sets the next version.
func (w *world) begin(r *rand.Rand) {
	w.mu.Lock()
	before := w.target
	if w.bad {
		before = w.good // which hosts of prod have still
	}
	w.number++
	w.good, w.target, w.bad = before, fmt.Sprintf("1.%d.0", w.number), r.IntN(3) == 0
	w.epochAt = w.db.failovers
	w.markers = map[int]struct{}{}
	target := w.target
	w.order = versions(before, target)
	w.mu.Unlock()
	w.apply(r.IntN(servers), w.order)
	w.t.Logf("%s to %s, bad: %t", w.time().Format("02 15:04"), target, w.bad)
}

// giveAgain sets the version again if a failover has lost it, as whoever looks at the history after one does.
func (w *world) giveAgain(r *rand.Rand) {
	if w.db.failovers == w.looked {
		return
	}
	item, err := w.own.Get(w.t.Context(), rollout.KindVersion)
	if err != nil {
		return
	}
	w.looked = w.db.failovers
	list, err := rollout.Parse(item.Value)
	if err != nil {
		w.broke("the version in the store is none: %v", err)
		return
	}
	if v := list[0].(*rollout.Version); string(v.Spec.Agents.TargetVersion) != w.target {
		w.count("versions lost by a failover")
		w.apply(r.IntN(servers), w.order)
	}
}

// over reports whether nothing more comes of the rollout.
func (w *world) over(r *rollout.Rollout) bool {
	if r == nil || string(r.Spec.TargetVersion) != w.target {
		return false
	}
	for i := range r.Status.Groups {
		g := &r.Status.Groups[i]
		if g.Halted == nil && g.State != rollout.Done {
			return false
		}
		if g.Halted != nil {
			return true
		}
	}
	return true
}
