package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Conditions of a group at its turn.

// is reports whether a row of the tables is for the group as it is.
func (s *step) is(from State, under scope) bool { return s.g.State == from && s.r.within(under) }

// ready reports whether the groups before are done, and when the last of them was.
func (s *step) ready() (last time.Time, ok bool) {
	for _, i := range s.e.before(s.place) {
		g := &s.r.Status.Groups[i]
		if g.State != Done || g.Halted != nil {
			return last, false
		}
		if g.DoneTime.After(last) {
			last = g.DoneTime
		}
	}
	return last, true
}

func (s *step) mayStart() bool {
	last, ok := s.ready()
	if !ok || s.r.Spec.AnyHour {
		return ok
	}
	if len(s.e.before(s.place)) > 0 && s.now.Before(last.Add(time.Duration(s.g.ConfigWaitHours)*time.Hour)) {
		return false
	}
	_, inside := windowAt(s.g.ConfigDays, s.g.ConfigStartHour, startTime, s.now)
	return inside
}

// allMissing means a network that is down, or a server that hosts have just found
// again: a group that started now would look like a group without hosts, and be done an
// hour later without a single update.
func (s *step) allMissing() bool { return s.n.Present == 0 && s.n.Missing > 0 }

// mayOpen is mayStart of the strategy time-based. A group is opened once in a window:
// if somebody marked it done, it stays done until the next window. A window by hand
// that ends within a scheduled one does not use that one up.
func (s *step) mayOpen() bool {
	if s.r.Spec.AnyHour {
		return s.g.State == Unstarted
	}
	w, inside := s.window()
	return inside && w.to.After(s.g.WindowEnd)
}

func (s *step) window() (window, bool) {
	return windowAt(s.g.ConfigDays, s.g.ConfigStartHour, time.Duration(s.r.Spec.Window), s.now)
}

// hourOver reports whether the hour in which the group started is over. The hour begins
// at start_hour if the group started by its schedule, else at its start.
func (s *step) hourOver() bool {
	w, inside := windowAt(s.g.ConfigDays, s.g.ConfigStartHour, startTime, s.g.StartTime)
	if !inside || s.r.Spec.AnyHour {
		w.to = s.g.StartTime.Add(startTime)
	}
	return !s.now.Before(w.to)
}

// pick draws the canaries that the group would start with.
func (s *step) pick() []Canary {
	if s.g.ConfigCanaryCount > 0 && s.picked == nil && s.n.Eligible != nil {
		s.picked = drawCanaries(s.r, s.g, s.n.Eligible(), s.n.Look, s.beginning())
	}
	return s.picked
}

// beginning is the start time of a trial that begins now. It is always later than the
// start of the trial before, whatever the clock says.
func (s *step) beginning() time.Time {
	at := s.now
	if s.g.Plan != nil && !at.After(s.g.Plan.StartTime) {
		at = s.g.Plan.StartTime.Add(time.Second)
	}
	return at
}

func (s *step) canaryWith(holds func(CanaryReport, Canary) bool) (Canary, CanaryReport, bool) {
	for i, c := range s.g.Canaries {
		if i < len(s.n.Canaries) && holds(s.n.Canaries[i], c) {
			return c, s.n.Canaries[i], true
		}
	}
	return Canary{}, CanaryReport{}, false
}

func isFailed(r CanaryReport, _ Canary) bool               { return r.Failed }
func isTimedOut(r CanaryReport, c Canary) bool             { return r.TimedOut && !c.Success }
func isLost(r CanaryReport, c Canary) bool                 { return r.Lost && !c.Success }
func isSilent(r CanaryReport, c Canary) bool               { return r.Silent && !c.Success }
func (s *step) has(f func(CanaryReport, Canary) bool) bool { _, _, ok := s.canaryWith(f); return ok }

func (s *step) canaryFailed() bool   { return s.has(isFailed) }
func (s *step) canaryTimedOut() bool { return s.has(isTimedOut) }
func (s *step) canaryLost() bool     { return s.has(isLost) }
func (s *step) canarySilent() bool   { return s.has(isSilent) }

// canariesDone is also true without canaries: there is nobody left to wait for.
func (s *step) canariesDone() bool {
	return !slices.ContainsFunc(s.g.Canaries, func(c Canary) bool { return !c.Success })
}

// hosts is the number of hosts to which the group's percentages refer.
func (s *step) hosts() int {
	if s.g.Plan != nil {
		return s.g.Plan.HostCount
	}
	return max(s.g.InitialCount, s.n.Present)
}

func (s *step) tooManyFailed() bool {
	return s.config.guarded() && exceeds(s.n.Failed, s.config.maxFailed(), s.hosts())
}

// failing is how many hosts that report failed, and are not on the target.
func (s *step) failing() int { return s.n.Tally.With(HostFailed) }

// outOfReach means that a group would wait for ever: its hosts that did not fail are fewer than it needs to be done.
func (s *step) outOfReach() bool {
	return !s.begun && !s.config.guarded() && s.g.InitialCount > 0 && !enough(s.hosts()-s.failing(), s.config.threshold(), s.hosts())
}

func (s *step) tooManyTimedOut() bool {
	return s.config.guarded() && exceeds(s.n.TimedOut, s.config.maxTimeout(), s.hosts())
}

// complete needs counts of the trial if the group is guarded: failures in the instant in which it begins halt it.
func (s *step) complete() bool {
	if s.begun && s.config.guarded() {
		return false
	}
	return s.g.InitialCount > 0 && s.exhausted() && enough(s.n.UpToDate, s.config.threshold(), max(s.g.InitialCount, s.n.Present))
}

func (s *step) enoughUpdated() bool { return enough(s.n.UpToDate, s.config.threshold(), s.n.Present) }

// exhausted reports whether there is no host to wait for: all hosts of the plan have
// had their turn, and all hosts in flight are silent. These count as timed out here: a
// host that never says a word does not outweigh the limits.
func (s *step) exhausted() bool {
	switch f := s.n.Flight; {
	case s.g.Plan == nil:
		return true
	case f == nil || f.Admitted < f.Hosts-1 || f.InFlight > f.Silent:
		return false
	default:
		return !exceeds(s.n.TimedOut+f.Silent, s.config.maxTimeout(), s.hosts())
	}
}

func (s *step) expired() bool {
	return s.g.Plan != nil && !s.exhausted() && !s.now.Before(s.g.Plan.StartTime.Add(expiry))
}

// outgrown means that a plan has done all it can: the hosts that are behind came later,
// or left the version again. Silent hosts have a day to update.
func (s *step) outgrown() bool {
	if s.g.Plan == nil || s.g.InitialCount <= 0 || !s.exhausted() || s.complete() {
		return false
	}
	return s.n.Flight.InFlight == 0 || !s.now.Before(s.g.Plan.StartTime.Add(expiry))
}

func (s *step) shrunk() bool {
	return s.g.InitialCount > 0 && s.exhausted() && s.enoughUpdated() && !enough(s.n.UpToDate, s.config.threshold(), s.g.InitialCount)
}

func (s *step) heldBack() bool {
	f := s.n.Flight
	return f != nil && f.Limit > 0 && f.Unhealthy >= f.Limit && s.g.Plan != nil && s.g.Plan.LastActiveHostIndex < f.Hosts-1
}

// Messages for people. Messages of conditions hold no counts that change from tick to
// tick, since each change is written to the store.

func (s *step) canaryMessage() string {
	if c, r, ok := s.canaryWith(isFailed); ok {
		return fmt.Sprintf("canary %s failed: %s", nameOf(c.Hostname, c.HostID), given(notEmpty(r.Error),
			"it began to update and has not reported since"))
	}
	c, _, _ := s.canaryWith(isTimedOut)
	return fmt.Sprintf("canary %s was told to update, and did not reach %s within %s", nameOf(c.Hostname, c.HostID), s.r.Spec.TargetVersion,
		s.config.jitter()+s.config.timeout())
}

func (s *step) failedMessage() string {
	return fmt.Sprintf("%s failed, which is more than %d %%%s", ofHosts(s.n.Failed, max(s.hosts(), s.n.Failed)), s.config.maxFailed(),
		s.examples())
}

func (s *step) outOfReachMessage() string {
	return fmt.Sprintf("%s failed, and the group needs %d %% to be done%s", ofHosts(s.failing(), s.hosts()), s.config.threshold(),
		s.examples())
}

func (s *step) timedOutMessage() string {
	return fmt.Sprintf("%s timed out, which is more than %d %%%s", ofHosts(s.n.TimedOut, max(s.hosts(), s.n.TimedOut)), s.config.maxTimeout(),
		s.examples())
}

func (s *step) examples() string {
	var text strings.Builder
	for _, p := range s.n.Problems {
		fmt.Fprintf(&text, "; %s: %s", nameOf(p.Hostname, p.ID), given(notEmpty(p.Error), "it gave no error"))
	}
	return text.String()
}

func (s *step) expiredMessage() string {
	return fmt.Sprintf("of %s of the plan %d had a turn within 24 hours", hosts(s.g.Plan.HostCount), s.g.Plan.LastActiveHostIndex+1)
}

func (s *step) missingMessage() string {
	return "hosts of the group reported within the last day, and none of them reports now: the group does not start"
}

func (s *step) lostMessage() string {
	c, _, _ := s.canaryWith(isLost)
	return fmt.Sprintf("canary %s no longer reports, or was pinned, disabled or held", nameOf(c.Hostname, c.HostID))
}

func (s *step) shrunkMessage() string {
	return fmt.Sprintf("enough of the hosts that report are on %s, but these are fewer than %d %% of the %s at the start: "+
		"the server cannot tell whether the others are gone or broken", s.r.Spec.TargetVersion, s.config.threshold(), hosts(s.g.InitialCount))
}

func (s *step) silentMessage() string {
	c, _, _ := s.canaryWith(isSilent)
	return fmt.Sprintf("canary %s reports, and has not said that it was told to update", nameOf(c.Hostname, c.HostID))
}

func (s *step) outgrownMessage() string {
	return fmt.Sprintf("all hosts of the plan have had their turn, and fewer than %d %% of the hosts are on %s: "+
		"those that came after the plan was made wait until the group is done", s.config.threshold(), s.r.Spec.TargetVersion)
}

func (s *step) slowMessage() string {
	return fmt.Sprintf("24 hours after the start, fewer than %d %% of the hosts are on %s", s.config.threshold(), s.r.Spec.TargetVersion)
}

func (s *step) brokenMessage() string {
	return "its plan cannot be read, so no host is told to update"
}

func (s *step) heldBackMessage() string {
	if s.n.Flight.Limit == 1 {
		return "1 host may be in flight, and the agent of another one is down already"
	}
	return fmt.Sprintf("%d hosts may be in flight, and the agents of as many hosts are down already", s.n.Flight.Limit)
}
