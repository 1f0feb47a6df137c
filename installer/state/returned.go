package state

import (
	"time"

	"teleport-update/internal/version"
)

// returnPause is how long a version counts as just left, and how long the timer then does not
// take the host there again. Every change of version restarts the agent for those who are logged in.
const returnPause = time.Hour

// RecordChange records a change from the active version to another, before either is written: the
// host is back where it came from if it came here within the hour. Attempts that failed in
// between are no changes.
func (c *Config) RecordChange(to version.Release, now time.Time) {
	from, since := c.Active(), c.Status.ActiveSince
	c.Status.Returned = nil
	if to == c.Previous() && !since.IsZero() && now.Sub(since).Abs() < returnPause {
		c.Status.Returned = &Returned{Version: from.Version, Edition: from.Edition, Since: now}
	}
	c.Status.ActiveSince = now
}

// AgainAt is when the timer takes the host to a release again that it has just returned from;
// false if nothing is in the way.
func (s *Status) AgainAt(r version.Release, now time.Time) (at time.Time, waits bool) {
	b := s.Returned
	if b == nil || b.Version != r.Version || b.Edition != r.Edition {
		return time.Time{}, false
	}
	at = b.Since.Add(returnPause)
	return at, now.Before(at) && !now.Before(b.Since) // a clock that was set back holds nothing up
}
