package parts

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"teleport-update/internal/console"
)

// Limits for lines that anybody can cause: a line of at most a few hundred characters,
// and one a second.
const (
	rareEvery   = time.Second
	rareMessage = 300
	rareValue   = 200
)

// Rare returns a log for lines that anybody can cause without a secret. It writes at
// most one line a second, with the number of lines that were left out since the last
// one; message and values are cut. Its attributes are groups and texts of the caller.
func Rare(log *slog.Logger) *slog.Logger {
	return slog.New(&rare{Handler: log.Handler(), state: new(rareState), now: time.Now})
}

type rareState struct {
	mu      sync.Mutex
	next    time.Time
	leftOut int
}

type rare struct {
	slog.Handler
	state *rareState
	now   func() time.Time
}

// Handle implements slog.Handler.
func (r *rare) Handle(ctx context.Context, record slog.Record) error {
	leftOut, due := r.state.take(r.now())
	if !due {
		return nil
	}
	short := slog.NewRecord(record.Time, record.Level, console.Excerpt(record.Message, rareMessage), record.PC)
	record.Attrs(func(a slog.Attr) bool {
		short.AddAttrs(slog.String(a.Key, console.Excerpt(a.Value.String(), rareValue)))
		return true
	})
	if leftOut > 0 {
		short.AddAttrs(slog.Int("left_out", leftOut))
	}
	return r.Handler.Handle(ctx, short)
}

// WithAttrs implements slog.Handler.
func (r *rare) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &rare{Handler: r.Handler.WithAttrs(attrs), state: r.state, now: r.now}
}

// WithGroup implements slog.Handler.
func (r *rare) WithGroup(name string) slog.Handler {
	return &rare{Handler: r.Handler.WithGroup(name), state: r.state, now: r.now}
}

// take reports whether a line is due, and how many were left out since the last one.
func (s *rareState) take(now time.Time) (leftOut int, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A clock that was set back must not silence the log until it has caught up.
	if now.Before(s.next) && s.next.Sub(now) <= rareEvery {
		s.leftOut++
		return 0, false
	}
	leftOut, s.leftOut, s.next = s.leftOut, 0, now.Add(rareEvery)
	return leftOut, true
}
