package metrics

import (
	"context"
	"sync/atomic"
	"time"
)

// Pulse is that of a loop: it beats when the loop takes a tick, and as a long tick goes on. A loop that hangs, in a
// store for example, takes none; one that fails takes them all.
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

// Beat notes that the loop goes on with its tick. It does nothing if there is no loop.
func (p *Pulse) Beat() {
	if last := p.last.Load(); last != 0 {
		p.last.CompareAndSwap(last, p.now())
	}
}

// quiet returns for how long it has not beaten; false if there is no loop.
func (p *Pulse) quiet() (time.Duration, bool) {
	last := p.last.Load()
	if last == 0 {
		return 0, false
	}
	return time.Duration(p.now() - last), true
}

// Engine is the pulse of what steps the rollout.
func (m *Metrics) Engine() *Pulse { return &m.engine }

// Reports is the pulse of what keeps the reports of hosts.
func (m *Metrics) Reports() *Pulse { return &m.kept }
