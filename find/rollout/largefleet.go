package rollout

import (
	"iter"
	"time"
)

// LargeFleet is a Fleet that is counted in less time than it takes to go through its hosts one by one.
type LargeFleet interface {
	Fleet
	// Alike returns every host, with the count 1. For hosts in one group, on one
	// version and Plain at a moment, it may return any one of them with their number.
	Alike(now time.Time) iter.Seq2[*Host, int]
}

// Plain reports whether a host counts only by its group and its version: it is in a count, its agent runs, and it
// reports nothing about an update.
func (h *Host) Plain(now time.Time) bool {
	return !h.Unhealthy && h.Told.Target == "" && h.Begun.Target == "" && h.Failed.Target == "" && h.omitted(now) == ""
}

// PlainTimes bounds the times of a host that is Plain at a moment: first seen no later than first, last seen no earlier
// than last.
func PlainTimes(now time.Time) (first, last time.Time) {
	return now.Add(-settled), now.Add(-PresentFor)
}

func asLarge(f Fleet) LargeFleet {
	if large, ok := f.(LargeFleet); ok {
		return large
	}
	return oneByOne{f}
}

// oneByOne is a LargeFleet for any other.
type oneByOne struct{ Fleet }

func (f oneByOne) Alike(time.Time) iter.Seq2[*Host, int] {
	return func(yield func(*Host, int) bool) {
		for h := range f.All() {
			if !yield(h, 1) {
				return
			}
		}
	}
}
