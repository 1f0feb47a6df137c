package rollout

import (
	"slices"
	"strings"
	"time"
)

// rule is a row that holds for all groups.
type rule struct {
	when  string
	holds func(*Config, *Version, *Rollout, Counts) bool
	then  string
}

// The rules.
const (
	replaced = iota
	resting
	uncounted
)

// transition is a step that a group takes by itself.
type transition struct {
	from  State
	under scope // empty: any
	when  string
	holds func(*step) bool
	then  string
	// to is the next state; of a transition that halts, the state stays.
	to      State
	halt    bool
	reason  Reason
	apply   func(*step)
	message func(*step) string // of a halt
	// counts says that it follows from hosts that are not there or not ready, and
	// so needs counts that are complete.
	counts bool
}

// condition is a state of affairs that people should see while it holds.
type condition struct {
	kind    ConditionType
	from    State
	under   scope
	when    string
	holds   func(*step) bool
	message func(*step) string
	moved   string // what people can do about it
}

// Result is the result of a step of the engine, or of an order.
type Result struct {
	// Rollout is the given pointer itself if nothing has changed.
	Rollout *Rollout
	Steps   []Step
	// Plans were captured, and belong into the store together with the rollout.
	Plans []*Plan
}

// Step is one change of one group or, if Group is empty, of the rollout.
type Step struct {
	Group    string
	From, To State
	Halted   bool
	Reason   Reason
	Message  string
	// Rule is the row of the table that moved the group, in words; empty if people or
	// another version moved it.
	Rule string
}

// Next is one tick of the engine: it derives the next rollout from the resources that
// people wrote, the rollout so far, the reports of hosts and the time. It is a pure
// function.
//
// The config, the version and the rollout may be nil; counts belong to this rollout. A
// result needs new counts, which know its plans and canaries. Ticks at one moment, each
// with its own counts, come to an end after a few. The result may only be written if
// the store has the resources unchanged.
func Next(c *Config, v *Version, r *Rollout, n Counts, now time.Time) Result {
	now = moment(now)
	if v == nil {
		return Result{Rollout: r}
	}
	if rules[replaced].holds(c, v, r, n) {
		next := NewRollout(c, v, now)
		return Result{Rollout: next, Steps: []Step{{To: next.Status.State, Reason: NewVersionSet}}}
	}
	e := newEngine(r, n, now)
	e.changed = e.r.Spec.Mode != EffectiveMode(c, v)
	e.r.Spec.Mode = EffectiveMode(c, v)
	e.refresh()
	if !rules[resting].holds(c, v, r, n) {
		e.run()
		e.advance()
		e.point()
	}
	return e.result(r)
}

// engine works on a copy of a rollout.
type engine struct {
	r     *Rollout
	n     Counts
	now   time.Time
	steps []*step
	ahead [][]int // see before
	out   Result
	// changed and recounted say how the rollout differs from the one before. Every
	// change of an engine sets one of these.
	changed, recounted bool
	uncounted          bool // see rules
}

// step is a group at its turn.
type step struct {
	e        *engine
	r        *Rollout
	g        *GroupStatus
	config   Group
	n        GroupCounts
	place    int
	now      time.Time
	captured bool // the plan is newer than the counts
	begun    bool // the trial is newer than the counts, which say nothing of its failures
	picked   []Canary
	force    bool   // of an order
	to       string // of a rollback
	tried    uint32 // the transitions that were taken, by their bits
}

// before returns all groups that have to be done before one. In time-based rollouts
// groups do not know one another.
func (e *engine) before(place int) []int {
	if e.r.Spec.Strategy == TimeBased {
		return nil
	}
	if e.ahead == nil {
		e.ahead = closure(before(e.r.groups()))
	}
	return e.ahead[place]
}

func newEngine(r *Rollout, n Counts, now time.Time) *engine {
	e := &engine{r: r.Clone(), n: n, now: now, uncounted: rules[uncounted].holds(nil, nil, r, n)}
	for i := range e.r.Status.Groups {
		s := &step{e: e, r: e.r, g: &e.r.Status.Groups[i], place: i, now: now}
		s.config = s.g.config()
		if i < len(n.Groups) {
			s.n = n.Groups[i]
		}
		e.steps = append(e.steps, s)
	}
	return e
}

// refresh copies the counts into the rollout. If the server does not know all hosts
// yet, its counts would say that a fleet has shrunk.
func (e *engine) refresh() {
	if e.uncounted {
		return
	}
	for _, s := range e.steps {
		g, n := s.g, s.n
		counts := groupCounts{n.Present, n.UpToDate, g.FailedCount, g.TimedOutCount, 0, 0, n.Unhealthy}
		if g.State == Canarying || g.State == Active {
			counts.failed, counts.timedOut = n.Failed, n.TimedOut
		}
		switch {
		case n.Flight != nil:
			counts.inFlight, counts.silent = n.Flight.InFlight, n.Flight.Silent
		case g.Plan != nil && g.State == Active: // the plan cannot be read, and nobody knows; others may
			counts.failed, counts.timedOut = g.FailedCount, g.TimedOutCount
			counts.inFlight, counts.silent = g.InFlightCount, g.SilentCount
		}
		e.recounted = e.recounted || g.counts() != counts
		e.changed = e.changed || counts.failed > 0 && g.FailedCount == 0 // an event
		g.setCounts(counts)
		s.setPreviousVersion()
		if g.InitialCount == unknownCount {
			g.InitialCount, e.changed = n.Present, true
		}
		for i := range g.Canaries {
			if i < len(n.Canaries) && n.Canaries[i].OnTarget && !g.Canaries[i].Success {
				g.Canaries[i].Success, e.changed = true, true
			}
		}
	}
}

// groupCounts are the counts of a GroupStatus.
type groupCounts struct{ present, upToDate, failed, timedOut, inFlight, silent, unhealthy int }

func (g *GroupStatus) counts() groupCounts {
	return groupCounts{g.PresentCount, g.UpToDateCount, g.FailedCount, g.TimedOutCount, g.InFlightCount, g.SilentCount, g.UnhealthyCount}
}

func (g *GroupStatus) setCounts(n groupCounts) {
	g.PresentCount, g.UpToDateCount, g.FailedCount, g.TimedOutCount = n.present, n.upToDate, n.failed, n.timedOut
	g.InFlightCount, g.SilentCount, g.UnhealthyCount = n.inFlight, n.silent, n.unhealthy
}

// run takes steps until no group can take another one. A group takes each step once
// at most.
func (e *engine) run() {
	for again := true; again; {
		again = false
		for _, s := range e.steps {
			for s.take() {
				again = true
			}
		}
	}
}

// take tries the transitions in their order and reports whether one applied.
func (s *step) take() bool {
	if s.g.Halted != nil {
		return false
	}
	for i := range transitions {
		t := &transitions[i]
		if s.tried&(1<<i) != 0 || t.counts && s.e.uncounted || !s.is(t.from, t.under) || !t.holds(s) {
			continue
		}
		s.tried |= 1 << i
		if t.halt {
			s.halt(t.reason, t.message(s))
		} else {
			s.move(t.to, t.reason, t.apply)
		}
		s.e.out.Steps[len(s.e.out.Steps)-1].Rule = ruleWords(i)
		return true
	}
	return false
}

// ruleWords returns the words of a transition. In the table, a row may continue the one
// before it.
func ruleWords(i int) string {
	when := transitions[i].when
	if rest, ok := strings.CutPrefix(when, "the same"); ok {
		before, _, _ := strings.Cut(transitions[i-1].when, ";")
		when = before + rest
	}
	return when
}

// move is the only way into another state.
func (s *step) move(to State, reason Reason, apply func(*step)) {
	from := s.g.State
	s.e.changed = true
	apply(s)
	s.g.State, s.g.LastUpdateTime, s.g.LastUpdateReason = to, s.now, reason
	if to == RolledBack {
		s.g.StoppedTime = s.now
	}
	s.e.out.Steps = append(s.e.out.Steps, Step{Group: s.g.Name, From: from, To: to, Reason: reason})
}

func (s *step) halt(reason Reason, message string) {
	s.e.changed = true
	s.g.Halted = &Halted{Since: s.now, Reason: reason, Message: message}
	s.g.LastUpdateTime, s.g.LastUpdateReason, s.g.StoppedTime = s.now, reason, s.now
	s.e.out.Steps = append(s.e.out.Steps, Step{Group: s.g.Name, From: s.g.State, To: s.g.State, Halted: true, Reason: reason,
		Message: message})
}

// advance lets more hosts of the plans begin.
func (e *engine) advance() {
	if e.uncounted {
		return
	}
	for _, s := range e.steps {
		plan := s.g.Plan
		if s.g.State != Active || s.g.Halted != nil || plan == nil || s.n.Flight == nil || s.captured {
			continue
		}
		if s.n.Flight.Place > plan.LastActiveHostIndex && !s.now.Before(plan.IndexTime.Add(indexEvery)) {
			plan.LastActiveHostIndex, plan.IndexTime = min(s.n.Flight.Place, plan.HostCount-1), s.now
			e.changed = true
		}
	}
}

// point keeps the conditions that hold as they began, and begins and ends others.
func (e *engine) point() {
	var all []Condition
	if len(e.r.Status.Groups) == 0 && e.r.Spec.Schedule != Immediate {
		all = []Condition{{WithoutGroup, e.r.Status.StartTime,
			"the schedule " + string(e.r.Spec.Schedule) + " has no groups, and no host is told to update: give it groups, and order a reset"}}
	}
	e.changed = e.changed || !slices.Equal(all, e.r.Status.Conditions)
	e.r.Status.Conditions = all
	for _, s := range e.steps {
		was := s.g.Conditions
		var now, kept []Condition
		for i := range conditions {
			c := &conditions[i]
			has := func(c2 Condition) bool { return c2.Type == c.kind }
			if s.g.Halted != nil || !s.is(c.from, c.under) || slices.ContainsFunc(now, has) {
				continue
			}
			old := slices.IndexFunc(was, has)
			switch {
			case e.uncounted && old >= 0: // nobody knows
				now = append(now, was[old])
			case !e.uncounted && !c.holds(s) && old >= 0 && s.holdsOn(was[old]):
				kept = append(kept, was[old])
			case e.uncounted || !c.holds(s):
			case old >= 0:
				now = append(now, Condition{c.kind, was[old].Since, c.message(s)})
			default:
				now = append(now, Condition{c.kind, s.now, c.message(s)})
			}
		}
		for _, c := range kept {
			if !slices.ContainsFunc(now, func(c2 Condition) bool { return c2.Type == c.Type }) {
				now = append(now, c)
			}
		}
		e.changed = e.changed || !slices.Equal(now, was)
		s.g.Conditions = now
	}
}

// conditionStays is how long a condition stays at least. One of two servers may see a condition that the other does
// not, such as a plan that cannot be read. Without it, each server would undo the other's change at every tick.
const conditionStays = ReportLife

// holdsOn reports whether a condition that no longer holds began a short while ago, and the group is still in the state
// in which it began.
func (s *step) holdsOn(c Condition) bool {
	return s.now.Before(c.Since.Add(conditionStays)) && c.Since.After(s.g.LastUpdateTime)
}

// result returns the rollout after the tick. Counts alone are written once a minute, or
// a fleet with hosts that come and go would be written at every tick.
func (e *engine) result(before *Rollout) Result {
	state := e.r.state()
	recounted := e.recounted && !e.now.Before(before.Status.CountsTime.Add(countsEvery))
	if !e.changed && !recounted && state == e.r.Status.State {
		e.out.Rollout = before
		return e.out
	}
	e.r.Status.State = state
	if !e.uncounted {
		e.r.Status.CountsTime = e.now
	}
	e.out.Rollout = e.r
	return e.out
}
