package rollout

import (
	"iter"
	"time"
)

// LargeFleet is a Fleet that is counted in less time than it takes to go through its hosts one by one.
type LargeFleet interface {
	Fleet
	// Alike returns every host, with 1. Of hosts in one group, on one version and Plain at a
	// moment, it may return any one, with how many of them there are.
	Alike(now time.Time) iter.Seq2[*Host, int]
	// Hosts returns the hosts of ids in their order, and nil if there is none.
	Hosts(ids []HostID) iter.Seq[*Host]
}

// Plain reports whether a host counts by nothing but its group and its version: it is in a count, its agent
// runs, and it has not said anything of an update.
func (h *Host) Plain(now time.Time) bool {
	return !h.Unhealthy && h.Told.Target == "" && h.Begun.Target == "" && h.Failed.Target == "" && h.omitted(now) == ""
}

// PlainTimes bound when a host was seen that is Plain at a moment: first at or before the one, and last at or after the other.
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

func (f oneByOne) Hosts(ids []HostID) iter.Seq[*Host] {
	return func(yield func(*Host) bool) {
		for _, id := range ids {
			if !yield(f.Host(id)) {
				return
			}
		}
	}
}
