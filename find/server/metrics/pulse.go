package metrics

import (
	"context"
	"sync/atomic"
	"time"
)

// Pulse shows whether a loop is alive: it beats when the loop takes a tick, and while a long tick goes on. A loop
// that hangs, for example in a store, takes no tick; a loop with errors takes all.
type Pulse struct {
	elapsed func() time.Duration // of Options
	last    atomic.Int64         // of elapsed, and one nanosecond more; 0: the loop is not run
}

// Of passes ticks on to a loop, until ctx ends.
func (p *Pulse) Of(ctx context.Context, ticks <-chan time.Time) <-chan time.Time {
	taken := make(chan time.Time)
	p.beat()
	go func() {
		for {
			select {
			case <-ctx.Done():
				p.last.Store(0)
				return
			case tick := <-ticks:
				select {
				case taken <- tick:
					p.beat()
				case <-ctx.Done():
				}
			}
		}
	}()
	return taken
}

func (p *Pulse) beat() { p.last.Store(p.now()) }

func (p *Pulse) now() int64 { return int64(p.elapsed()) + 1 }

// Beat notes that a long tick goes on. It does nothing if the loop does not run.
func (p *Pulse) Beat() {
	if last := p.last.Load(); last != 0 {
		p.last.CompareAndSwap(last, p.now())
	}
}

// quiet returns the time since the last beat. It returns false if the loop does not run.
func (p *Pulse) quiet() (time.Duration, bool) {
	last := p.last.Load()
	if last == 0 {
		return 0, false
	}
	return time.Duration(p.now() - last), true
}

// Engine is the pulse of the engine's loop.
func (m *Metrics) Engine() *Pulse { return &m.engine }

// Reports is the pulse of the loop that keeps the reports of hosts.
func (m *Metrics) Reports() *Pulse { return &m.kept }
