package rules

import (
	"maps"
	"slices"
	"time"
)

// The limits of what counts as a report (Heartbeats and reports).
const (
	presentFor      = 25 * time.Minute
	seenAtLeast     = time.Minute
	missingFor      = 24 * time.Hour
	twoPolls        = 20 * time.Minute
	defaultPatience = time.Hour
)

// said is one report of a host, in the words of this model.
type said struct {
	group      string
	version    string
	pinned     bool
	disabled   bool
	unhealthy  bool
	told       string // the version that the host was told to update to, or empty
	began      string // the target of an update that has begun and not ended
	failed     string // the target of the last update, if it failed
	failedTime time.Time
	backsOff   time.Time // until when the host does not try the failed target again
}

// knownHost is what the model remembers of one host. Times are the server's.
type knownHost struct {
	id          string
	last        said
	first, seen time.Time
	toldAt      time.Time // since when the host says that it was told last.told
	beganAt     time.Time
	failedAt    time.Time
	failedFor   string
	failedSaid  time.Time // the host's own time of the failure, which tells failures apart
	restsUntil  time.Time
}

// hear takes a report.
func (r *knownHost) hear(s said, now time.Time) {
	if r.seen.IsZero() || now.Sub(r.seen) > presentFor {
		r.first = now
	}
	if s.told != r.last.told {
		r.toldAt = now
	}
	if s.began != "" && s.began != r.last.began {
		r.beganAt = now
	}
	if s.failed != "" {
		r.restsUntil = s.backsOff
	}
	if s.failed != "" && !s.failedTime.Equal(r.failedSaid) {
		r.failedAt, r.failedFor, r.failedSaid = now, s.failed, s.failedTime
	}
	r.last, r.seen = s, now
}

func (r *knownHost) present(now time.Time) bool { return now.Sub(r.seen) <= presentFor }

// counted reports whether the host is in its group's count.
func (r *knownHost) counted(now time.Time) bool {
	return !r.omitted() && r.present(now) && now.Sub(r.first) >= seenAtLeast
}

// omitted reports whether the host has said that it is not to be counted.
func (r *knownHost) omitted() bool { return r.last.pinned || r.last.disabled }

// suits reports whether the host may be a canary for a target: one that could not show anything is none.
func (r *knownHost) suits(target string, now time.Time) bool {
	rests := r.failedFor == target && r.restsUntil.After(now)
	return !r.last.unhealthy && !rests
}

// missing reports whether the host reported within a day and cannot be counted now:
// it is away, whatever it said of itself, or has just come back.
func (r *knownHost) missing(now time.Time) bool {
	if !r.present(now) {
		return now.Sub(r.seen) < missingFor
	}
	return !r.omitted() && now.Sub(r.first) < seenAtLeast
}

// membership returns the records of each group of a rollout, by the group's place.
// A host of no known group belongs to the last one, or to none if those are held.
func membership(hosts map[string]*knownHost, groups []*group, hold bool) [][]*knownHost {
	of := make([][]*knownHost, len(groups))
	for _, id := range slices.Sorted(maps.Keys(hosts)) {
		h := hosts[id]
		i := slices.IndexFunc(groups, func(g *group) bool { return g.want.name == h.last.group })
		if i < 0 && !hold {
			i = len(groups) - 1
		}
		if i >= 0 {
			of[i] = append(of[i], h)
		}
	}
	return of
}
