package rules

import (
	"slices"
	"time"
)

// The states of a group.
const (
	unstarted  = "unstarted"
	canary     = "canary"
	active     = "active"
	done       = "done"
	rolledback = "rolledback"
)

// wish is the configuration of a group as a person writes it.
type wish struct {
	name          string
	days          []time.Weekday // none: Monday to Thursday
	hour          int
	wait          int
	canaries      int
	jitter        int // seconds, -1: not given
	timeout       int // seconds, -1: not given
	failure       int // seconds, -1: not given
	inFlight      int // -1: no plan
	inFlightShare bool
	maxTimeout    int // percent, -1: not given
	maxFailed     int // percent, -1: not given
	requires      []string
}

func (w *wish) guarded() bool {
	return w.timeout >= 0 || w.failure >= 0 || w.inFlight >= 0 || w.maxTimeout >= 0 || w.maxFailed >= 0
}

func (w *wish) limits() (timeouts, failures int) {
	timeouts, failures = 10, 0
	if w.maxTimeout >= 0 {
		timeouts = w.maxTimeout
	}
	if w.maxFailed >= 0 {
		failures = w.maxFailed
	}
	return timeouts, failures
}

// threshold is the part of the hosts, in percent, that must be on the target.
func (w *wish) threshold() int {
	timeouts, failures := w.limits()
	return max(0, 100-timeouts-failures)
}

// patience is how long a host may take after it was told to update.
func (w *wish) patience() time.Duration {
	limit := defaultPatience
	if w.timeout >= 0 {
		limit = time.Duration(w.timeout) * time.Second
	}
	if w.jitter > 0 {
		limit += time.Duration(w.jitter) * time.Second
	}
	return limit
}

// silence is how long a host may say nothing in the middle of an update.
func (w *wish) silence() time.Duration {
	return max(twoPolls, time.Duration(w.failure)*time.Second)
}

// allowed is how many hosts of a plan may be in flight.
func (w *wish) allowed(hosts int) int {
	if !w.inFlightShare {
		return w.inFlight
	}
	if w.inFlight == 0 {
		return 0
	}
	return max(1, hosts*w.inFlight/100)
}

// onDay reports whether a window may begin on the day of t.
func (w *wish) onDay(t time.Time) bool {
	if len(w.days) == 0 {
		return t.Weekday() >= time.Monday && t.Weekday() <= time.Thursday
	}
	return slices.Contains(w.days, t.Weekday())
}

// opened returns when the window of a length began that t is in.
func (w *wish) opened(t time.Time, length time.Duration) (time.Time, bool) {
	today := time.Date(t.Year(), t.Month(), t.Day(), w.hour, 0, 0, 0, time.UTC)
	for _, begin := range []time.Time{today, today.AddDate(0, 0, -1)} {
		inside := !t.Before(begin) && t.Before(begin.Add(length))
		if inside && w.onDay(begin) {
			return begin, true
		}
	}
	return time.Time{}, false
}

// group is how far a group has come.
type group struct {
	want      wish
	state     string
	halted    string // the reason, or empty
	trial     time.Time
	doneAt    time.Time
	windowEnd time.Time
	initial   int
	canaries  []string
	plan      []string
	index     int
	planAt    time.Time
	indexAt   time.Time
	previous  string    // what most of its hosts ran when the rollout began, as far as that is known
	back      string    // where a group goes that was rolled back
	retried   time.Time // of the last retry; zero for none
	stopped   time.Time // when it was halted or rolled back last; zero for never
}

func (g *group) planned() bool { return g.plan != nil }

// place returns a host's place in the plan, -1 for none.
func (g *group) place(id string) int { return slices.Index(g.plan, id) }

// course is one version on its way through the groups.
type course struct {
	start, target string
	schedule      string
	timeBased     bool
	window        time.Duration
	hold          bool
	anyHour       bool
	groups        []*group
	since         time.Time
}

// model is the whole of it: what is wanted, what is known and how far it has come.
type model struct {
	mode    string
	hosts   map[string]*knownHost
	rollout *course
	now     time.Time
	orders  map[string]*hostOrder // to hosts, by their ids
	// complete says that every host has had time to report: silence means something.
	complete bool
}

// tally is what the hosts of one group say for a rollout.
type tally struct {
	present, upToDate, failed, timedOut, unhealthy, missing int

	failing int // of those that are present: they failed, and are not on the target

	inFlight, silent int
	place            int // the largest place that may be told now
	eligible         []string
	suitable         int            // of these, as canaries
	versions         map[string]int // of those that are present
}

// saidFailed reports whether the host has reported a failure in the trial.
func (m *model) saidFailed(h *knownHost, g *group) bool {
	return h.failedFor == m.rollout.target && !h.failedAt.Before(g.trial)
}

// trialOf returns what became of a host's update in the trial that began at a moment.
func (m *model) trialOf(h *knownHost, g *group) (failed, timedOut bool) {
	target := m.rollout.target
	onTarget := h.last.version == target
	failed = m.saidFailed(h, g)
	begun := h.last.began == target && !onTarget && !h.beganAt.Before(g.trial)
	hung := begun && m.complete && m.now.Sub(h.seen) > g.want.silence()
	if failed || hung && !h.omitted() {
		return true, false
	}
	told := h.last.told == target && !h.seen.Before(g.trial) // who is not heard of in the trial was not told in it
	timedOut = told && m.complete && !onTarget && m.now.Sub(later(h.toldAt, g.trial)) >= g.want.patience()
	return false, timedOut
}

func later(times ...time.Time) time.Time {
	return slices.MaxFunc(times, func(a, b time.Time) int { return a.Compare(b) })
}

// count counts the hosts of a group.
func (m *model) count(g *group, members []*knownHost) tally {
	n := tally{versions: map[string]int{}}
	for _, h := range members {
		counted := h.counted(m.now)
		switch {
		case m.keptApart(h):
			n.missing += one(h.missing(m.now))
		case counted:
			n.present++
			n.versions[h.last.version]++
			if h.last.version == m.rollout.target {
				n.upToDate++
			} else {
				n.eligible = append(n.eligible, h.id)
				n.suitable += one(h.suits(m.rollout.target, m.now))
			}
			if h.last.unhealthy {
				n.unhealthy++
			}
		case h.missing(m.now):
			n.missing++
		}
	}
	if g.planned() {
		m.countPlan(g, members, &n)
		return n
	}
	for _, h := range members {
		if g.state == unstarted || m.keptApart(h) {
			continue
		}
		failed, timedOut := m.trialOf(h, g)
		n.failed += one(failed) // a verdict holds, whatever the host says later
		n.failing += one(failed && h.counted(m.now) && h.last.version != m.rollout.target)
		n.timedOut += one(timedOut && !h.omitted())
	}
	return n
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// countPlan counts the hosts that the plan admits, and looks how far it may go.
func (m *model) countPlan(g *group, members []*knownHost, n *tally) {
	flying := map[string]bool{}
	unfinished := make([]bool, len(g.plan))
	for place, id := range g.plan {
		h := m.hosts[id]
		mine := h != nil && slices.Contains(members, h)
		if h == nil || m.keptApart(h) {
			continue
		}
		if !mine || h.omitted() { // withdrawn: only its verdict counts
			n.failed += one(m.saidFailed(h, g) && place <= g.index)
			continue
		}
		if h.last.version == m.rollout.target {
			if failed, _ := m.trialOf(h, g); failed && place <= g.index {
				n.failed++
			}
			continue
		}
		if place > g.index {
			unfinished[place] = true
			continue
		}
		failed, timedOut := m.trialOf(h, g)
		heard := h.last.told == m.rollout.target && !h.seen.Before(g.trial)
		gone := !heard && m.complete && !h.present(m.now)
		switch {
		case failed:
			n.failed++
		case timedOut || gone:
			n.timedOut++
		default:
			unfinished[place] = true
			flying[id] = true
			n.inFlight++
			n.silent += one(!heard)
		}
	}
	// An unhealthy host counts against the limit until it is in flight itself.
	ill := map[string]bool{}
	for _, h := range members {
		if h.counted(m.now) && h.last.unhealthy && !flying[h.id] && !m.keptApart(h) {
			ill[h.id] = true
		}
	}
	limit := g.want.allowed(len(g.plan))
	n.place = -1
	before := 0
	for place, id := range g.plan {
		if before+len(ill) >= limit {
			break
		}
		n.place = place
		if unfinished[place] {
			delete(ill, id)
		}
		before += one(unfinished[place])
	}
}
