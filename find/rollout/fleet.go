package rollout

import (
	"encoding/binary"
	"hash/fnv"
	"iter"
	"slices"
	"time"
)

// Fleet is the hosts that report, at one moment. Neither it nor its hosts change
// while somebody counts.
type Fleet interface {
	// All returns every host that is known.
	All() iter.Seq[*Host]
	// Host returns the host of an id, or nil. The hosts that it and All return are
	// valid until the next one is asked for.
	Host(id HostID) *Host
}

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

// share is the part of a fleet that one of several servers reports.
type share struct {
	Fleet
	server string
	seeds  map[string]uint64
}

// Shared returns the hosts of a fleet that a server reports, one of several that know all of it. Each host is in the share
// of exactly one of them, so that the sum of their reports counts it once; if a server comes or goes, only the hosts of its
// share move. The server itself need not be in the list.
func Shared(f Fleet, server string, servers []string) Fleet {
	if len(servers) == 0 || len(servers) == 1 && servers[0] == server {
		return f
	}
	s := share{Fleet: f, server: server, seeds: make(map[string]uint64)}
	for _, name := range append(slices.Clone(servers), server) {
		h := fnv.New64a()
		h.Write([]byte(name))
		s.seeds[name] = mix(h.Sum64())
	}
	return s
}

// All implements Fleet.
func (s share) All() iter.Seq[*Host] {
	return func(yield func(*Host) bool) {
		for h := range s.Fleet.All() {
			if s.has(h.ID) && !yield(h) {
				return
			}
		}
	}
}

// Host implements Fleet.
func (s share) Host(id HostID) *Host {
	if !s.has(id) {
		return nil
	}
	return s.Fleet.Host(id)
}

// has reports whether the server draws the highest number for a host (rendezvous hashing).
func (s share) has(id HostID) bool {
	digest := mix(binary.LittleEndian.Uint64(id[:8]) ^ mix(binary.LittleEndian.Uint64(id[8:])))
	mine := mix(digest ^ s.seeds[s.server])
	for name, seed := range s.seeds {
		other := mix(digest ^ seed)
		if other > mine || other == mine && name > s.server {
			return false
		}
	}
	return true
}

// mix spreads the bits of a number over all of it (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
