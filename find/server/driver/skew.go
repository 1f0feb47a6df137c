package driver

import (
	"context"
	"fmt"
	"time"
)

// maxSkew is the greatest accepted difference between the clocks of a server and its store.
const maxSkew = 10 * time.Second

// SkewError says that the clocks of a server and its store disagree, and that neither can be trusted.
type SkewError struct {
	Ahead time.Duration // the server's clock before the store's; negative: it is behind
}

func (e *SkewError) Error() string {
	side := "ahead of"
	if e.Ahead < 0 {
		side = "behind"
	}
	return fmt.Sprintf("this server's clock is %s %s the store's, and more than %s is too much for schedules: "+
		"it does not move the rollout until the clocks agree, look at both machines' time synchronisation",
		e.Ahead.Abs().Round(time.Second), side, maxSkew)
}

// checkClock compares the clocks of server and store, and returns a *SkewError if they are too far apart, even after the
// time of the request is allowed for.
func (e *Engine) checkClock(ctx context.Context) error {
	if e.opts.StoreClock == nil {
		return nil
	}
	before := e.opts.Clock()
	there, err := e.opts.StoreClock(ctx)
	if err != nil {
		return err
	}
	way := e.opts.Clock().Sub(before) / 2
	skew := there.Sub(before.Add(way))
	apart := skew.Abs()-way > maxSkew
	e.mu.Lock()
	agree := e.skewed && !apart
	e.skew, e.skewed = &skew, apart
	e.mu.Unlock()
	if agree && e.opts.SetRight != nil {
		e.opts.SetRight()
	}
	if apart {
		return &SkewError{Ahead: -skew}
	}
	return nil
}

// Skew returns how far the store's clock is ahead of this server's if they are too far apart, else zero.
func (e *Engine) Skew() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.skewed {
		return 0
	}
	return *e.skew
}

// deadline returns when counts become too old to be written, by the store's clock; zero if that is unknown.
func (e *Engine) deadline(counted time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.skew == nil {
		return time.Time{}
	}
	return counted.Add(*e.skew + maxAge)
}
