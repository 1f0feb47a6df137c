package installer

import (
	"time"

	"teleport-update/internal/version"
)

const (
	firstRetry = time.Hour
	lastRetry  = 14 * 24 * time.Hour
	// interruptions of one version that count together as one failure.
	interruptionLimit = 3
)

// recordFailure counts one more failure of a release. Another version, edition
// or digest starts from one.
func recordFailure(s *Status, r release, now time.Time, reason string) {
	attempts := 1
	if f := s.Failed; f != nil && f.Version == r.Version && f.Edition == r.Edition && f.SHA256 == r.SHA256 {
		attempts = f.Attempts + 1
	}
	s.Failed = &Failed{
		Version: r.Version, Edition: r.Edition, SHA256: r.SHA256,
		Attempts: attempts, NextAttempt: now.Add(retryDelay(attempts)).UTC().Truncate(time.Second), Error: reason,
	}
	s.Interrupted = nil
}

// retryDelay doubles from an hour to two weeks.
func retryDelay(attempts int) time.Duration {
	d := firstRetry
	for range attempts - 1 {
		if d *= 2; d >= lastRetry {
			return lastRetry
		}
	}
	return d
}

// recordInterruption counts a transaction that was cut off from outside, and
// reports whether it was the one too many: then it counts as a failure.
func recordInterruption(s *Status, r release) (tooMany bool) {
	if s.Interrupted == nil || s.Interrupted.Version != r.Version || s.Interrupted.Edition != r.Edition {
		s.Interrupted = &Interrupted{Version: r.Version, Edition: r.Edition}
	}
	s.Interrupted.Count++
	return s.Interrupted.Count >= interruptionLimit
}

// replacedBy reports whether a tarball of the version that failed is another
// than the one that did; an empty digest is not known.
func (f *Failed) replacedBy(sha256 string) bool {
	return sha256 != "" && f.SHA256 != "" && sha256 != f.SHA256
}

// backingOff reports whether a version failed and is not due yet. A next
// attempt further off than the longest delay comes from a clock that jumped,
// and counts as due.
func backingOff(f *Failed, v string, e version.Edition, now time.Time) bool {
	if f == nil || f.Version != v || f.Edition != "" && f.Edition != e {
		return false
	}
	left := f.NextAttempt.Sub(now)
	return left > 0 && left <= lastRetry
}
