//go:build hosts

package clusterfaults

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// fault is something that goes wrong, and its end.
type fault struct {
	name  string
	of    string // database or server: one of each at a time
	begin func(w *world, r *rand.Rand, s int)
	end   func(w *world, s int)
	// silent: whoever waits for an answer gets none. Now and then it lasts until they give up.
	silent bool
}

// givesUp is longer than any operation of a store waits.
const givesUp = 16 * time.Second

var faults = []fault{
	{"database killed", "database", func(w *world, _ *rand.Rand, _ int) { w.primary().Kill() },
		func(w *world, _ int) { w.primary().Boot() }, false},
	{"database stopped", "database", func(w *world, _ *rand.Rand, _ int) { w.primary().Signal(syscall.SIGSTOP) },
		func(w *world, _ int) { w.primary().Signal(syscall.SIGCONT) }, true},
	{"database cut off", "database", func(w *world, _ *rand.Rand, _ int) { w.cutAll(true) },
		func(w *world, _ int) { w.cutAll(false) }, true},
	{"failover", "database", func(w *world, _ *rand.Rand, _ int) { w.net.part(true) },
		func(w *world, _ int) { w.failOver() }, false},
	{"disk full", "database", func(w *world, _ *rand.Rand, _ int) { w.db.fill() },
		func(w *world, _ int) { w.db.drain() }, false},
	{"database slow", "database", func(w *world, _ *rand.Rand, _ int) { w.db.slowDown() },
		func(w *world, _ int) { w.db.speedUp() }, false},
	{"server cut off", "server", func(w *world, _ *rand.Rand, s int) { w.net.cut(s, w.db.primary, true) }, func(w *world, s int) {
		for d := range databases {
			w.net.cut(s, d, false)
		}
	}, true},
	{"server killed", "server", func(w *world, _ *rand.Rand, s int) { w.servers[s].kill() },
		func(w *world, s int) { w.servers[s].start() }, false},
	// In the milliseconds after a step, in which servers count and write.
	{"server paused", "server", func(w *world, r *rand.Rand, s int) {
		w.pass(step)
		time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
		w.servers[s].pause(true)
	}, func(w *world, s int) { w.servers[s].pause(false) }, false},
	{"clocks apart", "server", func(w *world, r *rand.Rand, s int) {
		d := time.Duration(11+r.IntN(7200)) * time.Second
		if r.IntN(2) == 0 {
			d = -d
		}
		w.skew(s, d)
	}, func(w *world, s int) { w.skew(s, 0) }, false},
}

// active is a fault that is there.
type active struct {
	fault
	server int
	steps  int // until it ends
}

// ofDatabase reports whether a fault of the database is there.
func ofDatabase(now []active) bool {
	return slices.ContainsFunc(now, func(a active) bool { return a.of == "database" })
}

// draw begins a fault, by lot, of a kind of which there is none.
func (w *world) draw(r *rand.Rand, now []active) []active {
	f := faults[r.IntN(len(faults))]
	server, steps := r.IntN(servers), 1+r.IntN(5)
	for _, a := range now {
		if a.of == f.of {
			return now
		}
	}
	w.t.Logf("%s %s (%d) for %d steps", w.time().Format("02 15:04"), f.name, server, steps)
	w.count(f.name)
	f.begin(w, r, server)
	if long := r.IntN(12) == 0; long && f.silent {
		w.count(f.name + " until servers gave up")
		w.pass(step)
		time.Sleep(givesUp)
	}
	return append(now, active{f, server, steps})
}

// heal ends the faults whose time is over; all of them if it is told to.
func (w *world) heal(now []active, all bool) (left []active) {
	// Databases first: servers do not start without one.
	for _, of := range []string{"database", "server"} {
		for _, a := range now {
			if a.of != of {
				continue
			}
			if a.steps--; a.steps > 0 && !all || of == "server" && len(left) > 0 && a.name == "server killed" {
				left = append(left, a)
				continue
			}
			a.end(w, a.server)
		}
	}
	return left
}

func (w *world) cutAll(down bool) {
	for s := range servers {
		w.net.cut(s, w.db.primary, down)
	}
}

// failOver promotes the standby, which lacks what came since it was cut off from the primary.
func (w *world) failOver() {
	w.linear.lose(func() {
		w.mu.Lock()
		w.db.failovers++
		w.mu.Unlock()
		w.db.failOver()
	})
	for s := range servers {
		w.net.cut(s, w.db.primary, false)
	}
	w.connect()
}
