package inventory

import (
	"hash/maphash"
	"maps"
	"math"
	"math/bits"
	"slices"
	"sync"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
)

const (
	// askedFor is how long requests are remembered, in parts of askedPart.
	askedFor   = time.Hour
	askedPart  = 5 * time.Minute
	askedParts = int(askedFor/askedPart) + 1
	// maxAskedGroups and maxAskedVersions bound data that anybody can make up.
	maxAskedGroups   = 200
	maxAskedVersions = 20
	// otherGroups stands for the groups beyond maxAskedGroups.
	otherGroups = "(other groups)"
	// longestGroup is longer than any group's name in a schedule.
	longestGroup = 200
)

// Asked counts requests to find in the last hour. Anybody can ask, in any name and as
// often as they like, so the counts are only for people, and no rollout depends on
// them. Its memory is bounded: about a kilobyte for a group and five minutes.
type Asked struct {
	Clock func() time.Time
	named func(group string) bool
	seed  maphash.Seed

	mu    sync.Mutex
	since time.Time
	parts [askedParts]askedTime
	last  *askedTime // of the last request
}

type askedTime struct {
	begin  time.Time
	groups map[string]*askedGroup
}

type askedGroup struct {
	questions int64
	versions  map[rollout.Semver]*int64
	hosts     sketch
}

// NewAsked returns an empty Asked. named reports whether the operator has named a group: such a group has its
// own count, whatever others make up. It must not block, and may be nil.
func NewAsked(clock func() time.Time, named func(group string) bool) *Asked {
	if named == nil {
		named = func(string) bool { return false }
	}
	return &Asked{Clock: clock, named: named, seed: maphash.MakeSeed(), since: clock()}
}

// Count counts a request and the version in its answer.
func (a *Asked) Count(q rollout.Query, version string, now time.Time) {
	var hash uint64
	if q.Host != "" {
		hash = maphash.String(a.seed, q.Host)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	part := a.part(now)
	g := part.groups[q.Group]
	if g == nil {
		name := q.Group
		if crowded := len(part.groups) >= maxAskedGroups; len(name) > longestGroup || crowded && !a.named(name) {
			name = otherGroups
		}
		if g = part.groups[name]; g == nil {
			g = &askedGroup{versions: make(map[rollout.Semver]*int64)}
			part.groups[string([]byte(name))] = g // a part of q would keep the whole request in memory
		}
	}
	g.questions++
	n := g.versions[rollout.Semver(version)]
	if n == nil && len(g.versions) < maxAskedVersions {
		n = new(int64)
		g.versions[rollout.Semver(version)] = n
	}
	if n != nil {
		*n++
	}
	if q.Host != "" {
		g.hosts.add(hash)
	}
}

// part returns the part of the hour that a moment belongs to. The last one is tried first: to compute the part would take
// longer than all the rest of counting a question.
func (a *Asked) part(now time.Time) *askedTime {
	if a.last != nil {
		if into := now.Sub(a.last.begin); into >= 0 && into < askedPart {
			return a.last
		}
	}
	begin := now.Truncate(askedPart)
	a.last = &a.parts[int(begin.Unix()/int64(askedPart/time.Second))%askedParts]
	if !a.last.begin.Equal(begin) {
		*a.last = askedTime{begin: begin, groups: make(map[string]*askedGroup)}
	}
	return a.last
}

// Summary returns the counts of the last hour. known says which groups exist.
func (a *Asked) Summary(known func(group string) bool) adminapi.Asked {
	now := a.Clock()
	answer := adminapi.Asked{Unconfirmed: true, Since: latest(a.since, now.Add(-askedFor)), Groups: []adminapi.AskedGroup{},
		Unknown: make(map[string]int64)}
	type total struct {
		questions int64
		versions  map[string]int64
		hosts     sketch
	}
	sum := make(map[string]*total)
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.parts {
		if now.Sub(a.parts[i].begin) >= askedFor {
			continue
		}
		for name, g := range a.parts[i].groups {
			s := sum[name]
			if s == nil {
				s = &total{versions: make(map[string]int64)}
				sum[name] = s
			}
			s.questions += g.questions
			for v, n := range g.versions {
				s.versions[string(v)] += *n
			}
			s.hosts.merge(&g.hosts)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		g := sum[name]
		one := adminapi.AskedGroup{Group: name, Questions: g.questions, Hosts: g.hosts.count(), Versions: g.versions}
		answer.Questions += g.questions
		answer.Groups = append(answer.Groups, one)
		if name != "" && name != otherGroups && !known(name) {
			answer.Unknown[name] = g.questions
		}
	}
	return answer
}

// sketch is a HyperLogLog of 1024 registers: it estimates the number of different
// hosts, to about three in a hundred, in a kilobyte.
type sketch struct{ registers [1 << sketchBits]uint8 }

const sketchBits = 10

func (s *sketch) add(hash uint64) {
	at := hash >> (64 - sketchBits)
	rank := uint8(bits.LeadingZeros64(hash<<sketchBits|1<<(sketchBits-1))) + 1
	s.registers[at] = max(s.registers[at], rank)
}

func (s *sketch) merge(other *sketch) {
	for i, r := range other.registers {
		s.registers[i] = max(s.registers[i], r)
	}
}

func (s *sketch) count() int {
	const m = float64(1 << sketchBits)
	sum, zeros := 0.0, 0.0
	for _, r := range s.registers {
		sum += math.Ldexp(1, -int(r))
		if r == 0 {
			zeros++
		}
	}
	estimate := 0.7213 / (1 + 1.079/m) * m * m / sum
	if estimate <= 2.5*m && zeros > 0 {
		estimate = m * math.Log(m/zeros) // better for few hosts
	}
	return int(math.Round(estimate))
}
