package state

import (
	"slices"
	"time"

	"teleport-update/find/want"
	"teleport-update/internal/version"
)

// returnPause is how long a version counts as just left, and how long the timer then does not
// take the host there again. Every change of version restarts the agent for those who are logged in.
const returnPause = time.Hour

// Earlier is a version that the host was on, and left within the hour before a change.
type Earlier struct {
	Version string          `yaml:"version"`
	Edition version.Edition `yaml:"edition,omitempty"`
	Until   time.Time       `yaml:"until"` // when the host left it
	Unknown unknown         `yaml:",inline"`
}

func (l Earlier) is(r version.Release) bool { return l.Version == r.Version && l.Edition == r.Edition }

// RecordChange records a change from the active version to another, before either is written: the
// host is back on a version if it left that within the hour. Attempts that failed in
// between are no changes.
func (c *Config) RecordChange(to version.Release, now time.Time) {
	s, from := &c.Status, c.Active()
	within := func(at time.Time) bool { return now.Sub(at).Abs() < returnPause }
	if s.Returned != nil && !within(s.Returned.Since) {
		s.Returned = nil
	}
	back := slices.ContainsFunc(s.Earlier, func(l Earlier) bool { return l.is(to) && within(l.Until) })
	s.Earlier = slices.DeleteFunc(s.Earlier, func(l Earlier) bool {
		return now.Sub(l.Until).Abs() >= 2*returnPause || l.is(from) || l.is(to) // an hour, and as long as a return counts
	})
	if from.Version != "" {
		s.Earlier = append(s.Earlier, Earlier{Version: from.Version, Edition: from.Edition, Until: now})
	}
	if back {
		s.Returned = &Returned{Version: from.Version, Edition: from.Edition, Since: now}
	}
	s.ActiveSince = now
}

// Agent returns what runs and what is remembered of a release, in the form for the decision about a wish.
func (c Config) Agent(wish version.Release, now time.Time) want.Agent {
	a := want.Agent{Active: c.Active(), Hold: c.Status.Held.Hold(), Failure: c.Status.FailureOf(wish).Failure()}
	if at, waits := c.Status.AgainAt(wish, now); waits {
		a.AgainAt = at
	}
	return a
}

// AgainAt returns when the timer takes the host to a release again that it left within the hour before it returned to another
// that it had left; false if nothing is in the way.
func (s *Status) AgainAt(r version.Release, now time.Time) (at time.Time, waits bool) {
	b := s.Returned
	if b == nil {
		return time.Time{}, false
	}
	left := b.Version == r.Version && b.Edition == r.Edition
	for _, l := range s.Earlier {
		ago := b.Since.Sub(l.Until)
		left = left || l.is(r) && ago >= 0 && ago < returnPause
	}
	if !left {
		return time.Time{}, false
	}
	at = b.Since.Add(returnPause)
	return at, now.Before(at) && !now.Before(b.Since) // a clock that was set back holds nothing up
}
