package rollout

import (
	"encoding/binary"
	"hash/fnv"
	"iter"
	"slices"
)

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
