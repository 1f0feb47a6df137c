package rollout

import "time"

const (
	// pollInterval is how often hosts ask and report.
	pollInterval = 10 * time.Minute
	// PresentFor is how long after its last report a host is present: two polls and
	// their spread.
	PresentFor = 25 * time.Minute
	// missedFor is how long after its last report a host is missed: after a day it
	// is gone.
	missedFor = 24 * time.Hour
	// settled is how long a host must have been seen before it counts.
	settled = time.Minute
	// defaultTimeout is the default of timeout_seconds: a download and a watch take
	// longer than the RFD's minute.
	defaultTimeout = time.Hour
	// goneFor is the least that failure_seconds can mean: a host that reports at
	// its polls cannot be missed sooner.
	goneFor = 2 * pollInterval
	// expiry is how long a group may take with a plan, and without one before it is
	// shown as stalled (RFD 0169 §Scheduling).
	expiry = 24 * time.Hour
	// indexEvery bounds how often the index of a plan is written.
	indexEvery = 10 * time.Second
	// countsEvery bounds how often counts alone are written.
	countsEvery = time.Minute
)

const (
	defaultMaxTimeout Percent = 10
	defaultMaxFailed  Percent = 0
)

func (g *Group) guarded() bool {
	timed := g.TimeoutSeconds != nil || g.FailureSeconds != nil
	return timed || g.MaxInFlight != nil || g.MaxTimeoutBeforeHalt != nil || g.MaxFailedBeforeHalt != nil
}

func (g *Group) maxTimeout() Percent { return given(g.MaxTimeoutBeforeHalt, defaultMaxTimeout) }
func (g *Group) maxFailed() Percent  { return given(g.MaxFailedBeforeHalt, defaultMaxFailed) }

// threshold is the part of the hosts, in percent, that have to be there and up to date
// before the group is done. By default it is the 90 % of Managed Updates.
func (g *Group) threshold() int { return int(100 - g.maxTimeout() - g.maxFailed()) }

// timeout is how long a host's update may take, beside its jitter.
func (g *Group) timeout() time.Duration {
	return time.Duration(given(g.TimeoutSeconds, int(defaultTimeout/time.Second))) * time.Second
}

// silence is how long a host that has begun may say nothing before it has failed.
func (g *Group) silence() time.Duration {
	return max(goneFor, time.Duration(given(g.FailureSeconds, 0))*time.Second)
}

// jitter is the group's bound on the random wait of its hosts; 0 if it has none.
func (g *Group) jitter() time.Duration { return time.Duration(given(g.JitterSeconds, 0)) * time.Second }

func given[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

// enough reports whether part is at least so many percent of whole, exactly.
func enough(part, percent, whole int) bool { return part*100 >= percent*whole }

// exceeds reports whether part is more than so many percent of whole, exactly: 1 of
// 10 at a limit of 10 % does not, 2 do.
func exceeds(part int, limit Percent, whole int) bool { return part*100 > int(limit)*whole }
