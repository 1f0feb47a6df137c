package want

import "time"

const (
	firstRetry = time.Hour
	// LastRetry is the longest delay between two attempts at one release.
	LastRetry = 14 * 24 * time.Hour
	// retrySlack is how far a clock may be set back without making an attempt due.
	retrySlack = 10 * time.Minute
)

// Failure is a release that failed on an agent.
type Failure struct {
	SHA256      string // of its tarball; empty: not known
	Attempts    int    // 1 or more
	NextAttempt time.Time
}

// RetryDelay is how long an agent waits after a number of failed attempts at one release: it
// doubles from an hour to LastRetry.
func RetryDelay(attempts int) time.Duration {
	d := firstRetry
	for range attempts - 1 {
		if d *= 2; d >= LastRetry {
			return LastRetry
		}
	}
	return d
}

// BackingOff reports whether the release is not due yet. A next attempt further off than its
// delay comes from a clock that jumped, and counts as due.
func (f *Failure) BackingOff(now time.Time) bool {
	if f == nil {
		return false
	}
	left := f.NextAttempt.Sub(now)
	return left > 0 && left <= RetryDelay(f.Attempts)+retrySlack
}

// ReplacedBy reports whether a checksum belongs to another tarball than the one that failed. A
// checksum that is not known replaces nothing.
func (f *Failure) ReplacedBy(sha256 string) bool {
	return f != nil && sha256 != "" && f.SHA256 != "" && sha256 != f.SHA256
}
