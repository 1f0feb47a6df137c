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

// CLUSTER_RUNS is how many rollouts there are, CLUSTER_SEED the seed of the first one, CLUSTER_MINUTES after which time no
// other one begins.
func TestRolloutsOverAClusterThatFails(t *testing.T) {
	if noMounts != nil {
		t.Skip(noMounts)
	}
	runs, first := number("CLUSTER_RUNS", 1000), number("CLUSTER_SEED", int(time.Now().Unix()))
	limit := time.Duration(number("CLUSTER_MINUTES", 1)) * time.Minute
	w := newWorld(t)
	violations := 0
	done := 0
	for began := time.Now(); done < runs && time.Since(began) < limit; done++ {
		if problems := w.run(first + done); len(problems) > 0 {
			violations++
			t.Errorf("CLUSTER_SEED=%d:\n%s", first+done, strings.Join(problems, "\n"))
			w.logs()
			break
		}
	}
	t.Logf("faults of a cluster: %d rollouts from seed %d, %v, %d answers, violations: %d", done, first, w.ops, w.answers, violations)
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
		if len(now) == 0 {
			w.look(time.Second)
		} else {
			w.look(150 * time.Millisecond)
		}
		if steps%3 == 0 {
			w.polls(r)
		}
		if r.IntN(12) == 0 {
			w.mark(r.IntN(servers))
		}
		now = w.heal(now, false)
		if steps < 60 && r.IntN(5) == 0 {
			now = w.draw(r, now)
		}
		if len(now) > 0 && now[0].of == "database" {
			continue
		}
		last = w.stored(r.IntN(servers))
		w.note(last)
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
	w.checkEnd(w.stored(0))
	w.checkMarks()
	close(stop)
	all.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return append(w.broken, w.linear.check()...)
}

// settle is some minutes after the last fault.
func (w *world) settle(r *rand.Rand) {
	for n := range 12 {
		w.pass(step)
		w.look(time.Second)
		if n%3 == 0 {
			w.polls(r)
		}
		w.note(w.stored(0))
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
	w.mu.Unlock()
	w.apply(r.IntN(servers), versions(before, target))
	w.t.Logf("%s to %s, bad: %t", w.time().Format("02 15:04"), target, w.bad)
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
