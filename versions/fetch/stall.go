package fetch

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

var errStalled = errors.New("the server sends too little")

// watch ends a request that brings too few bytes for too long. Only the time that a reader waits
// for bytes counts: a slow disk on our side is not the server's fault.
type watch struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer

	mu     sync.Mutex
	gauge  stallGauge
	waited time.Duration
	since  time.Time // when the current wait began; zero between waits
	bytes  int64
	ended  bool
}

// newWatch starts to watch; it calls cancel with errStalled when the window passes with fewer
// bytes than floor.
func newWatch(window time.Duration, floor int64, cancel context.CancelCauseFunc) *watch {
	w := &watch{cancel: cancel, gauge: stallGauge{window: window, floor: floor}}
	w.mu.Lock() // the first tick may come before the timer is noted
	defer w.mu.Unlock()
	w.since = time.Now()
	w.timer = time.AfterFunc(window/gaugeMarks, w.tick)
	return w
}

func (w *watch) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	waited := w.waited
	if !w.since.IsZero() {
		waited += time.Since(w.since)
	}
	if w.gauge.stalled(waited, w.bytes) {
		w.cancel(errStalled)
		return
	}
	w.timer.Reset(w.gauge.window / gaugeMarks)
}

// wait counts the time until the returned function is called, and the bytes that arrived in it.
func (w *watch) wait() func(n int) {
	w.mu.Lock()
	if w.since.IsZero() {
		w.since = time.Now()
	}
	w.mu.Unlock()
	return func(n int) {
		w.mu.Lock()
		w.waited += time.Since(w.since)
		w.since = time.Time{}
		w.bytes += int64(n)
		w.mu.Unlock()
	}
}

// end ends the request, too.
func (w *watch) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.timer.Stop()
	w.cancel(nil)
}

// gaugeMarks is how many steps the sliding window has.
const gaugeMarks = 8

// stallGauge is a sliding window over bytes and the time waited for them.
type stallGauge struct {
	window time.Duration
	floor  int64
	marks  []gaugeMark // the first is the newest one that is a window old, or the start
}

type gaugeMark struct {
	waited time.Duration
	bytes  int64
}

// stalled takes one reading and reports whether the last window brought fewer bytes than the
// floor.
func (g *stallGauge) stalled(waited time.Duration, bytes int64) bool {
	if n := len(g.marks); n == 0 {
		g.marks = append(g.marks, gaugeMark{})
	} else if waited-g.marks[n-1].waited >= g.window/gaugeMarks {
		g.marks = append(g.marks, gaugeMark{waited, bytes})
	}
	for len(g.marks) > 1 && waited-g.marks[1].waited >= g.window {
		g.marks = g.marks[1:]
	}
	first := g.marks[0]
	return waited-first.waited >= g.window && bytes-first.bytes < g.floor
}

// watchedBody is a response's body under a watch.
type watchedBody struct {
	ctx   context.Context
	body  io.ReadCloser
	watch *watch
}

func (b *watchedBody) Read(p []byte) (int, error) {
	done := b.watch.wait()
	n, err := b.body.Read(p)
	done(n)
	if err != nil && err != io.EOF && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}

func (b *watchedBody) Close() error {
	b.watch.end()
	return b.body.Close()
}
