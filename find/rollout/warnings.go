package rollout

import (
	"fmt"
	"slices"
	"time"

	"teleport-update/internal/version"
)

// Foresee returns warnings about a rollout whose groups have not had their turn: that
// nobody reports, that hosts are ahead of the start version, or that a plan cannot come
// to its end in time. A rollout of another version is replaced by the new one, and the
// counts must fit that. It is a pure function.
func Foresee(s Scene) (list []string) {
	r := s.Rollout
	if s.Version == nil {
		return nil
	}
	if r == nil || !r.Of(s.Version) {
		r = NewRollout(s.Config, s.Version, s.Now)
	}
	if len(r.Status.Groups) == 0 || len(s.Counts.Groups) != len(r.Status.Groups) {
		return nil
	}
	list = append(list, nobodyReports(r, s.Counts)...)
	list = append(list, newerThanStart(r, s.Counts)...)
	for i := range r.Status.Groups {
		g := &r.Status.Groups[i]
		if words := tooSlow(r, g, &s.Counts.Groups[i], moment(s.Now)); words != "" {
			list = append(list, fmt.Sprintf("group %s: %s", excerpt(g.Name), words))
		}
	}
	return list
}

// SlowPlans returns warnings about groups whose plans could not come to their end in time if the next rollout brought a version
// that no host runs. count counts the hosts for a rollout.
func SlowPlans(c *Config, now time.Time, count func(*Rollout) Counts) (list []string) {
	r := NewRollout(c, &Version{}, now)
	n := count(r)
	for i := range r.Status.Groups {
		if words := tooSlow(r, &r.Status.Groups[i], &n.Groups[i], moment(now)); words != "" {
			list = append(list, fmt.Sprintf("group %s: %s", excerpt(r.Status.Groups[i].Name), words))
		}
	}
	return list
}

// nobodyReports warns of groups that will be done although nothing shows whether their
// hosts updated. While the server does not know all hosts yet, it warns only if no host
// reports at all: hosts that have joined may be on their way.
func nobodyReports(r *Rollout, n Counts) []string {
	help := "give hosts a token by which they report (token add)"
	if absent := n.Omitted[omitAbsent]; absent > 0 {
		help = fmt.Sprintf("hosts that have joined and do not report now: %d (hosts --state absent); others need a token by which they "+
			"report (token add)", absent)
	}
	known, waiting, period := 0, 0, "hour"
	if r.within(untilClosed) {
		period = "window"
	}
	for _, count := range n.Omitted {
		known += count
	}
	var without []string
	for i := range n.Groups {
		known += n.Groups[i].Present
		g := &r.Status.Groups[i]
		if g.State == Done {
			continue
		}
		waiting++
		if n.Groups[i].Present == 0 && n.Groups[i].Missing == 0 {
			without = append(without, excerpt(g.Name))
		}
	}
	switch {
	case waiting == 0:
	case known == 0:
		return []string{fmt.Sprintf("no host reports: each group is done when its %s is over, and the server cannot tell whether any host "+
			"has updated; %s", period, help)}
	case n.Complete && len(without) > 0:
		return []string{fmt.Sprintf("no host of %s reports: the group is done when its %s is over, and nothing shows whether "+
			"its hosts have updated; %s", some(without), period, help)}
	}
	return nil
}

// newerThanStart warns of groups before their turn whose hosts run a version that is
// newer than the start version: new hosts would install an older one beside them.
func newerThanStart(r *Rollout, n Counts) (list []string) {
	start := string(r.Spec.StartVersion)
	for i := range r.Status.Groups {
		g := &r.Status.Groups[i]
		if g.State != Unstarted {
			continue
		}
		newer, newest := 0, start
		for v, count := range n.Groups[i].Versions {
			if v == "" || v == r.Spec.TargetVersion || version.Compare(string(v), start) <= 0 {
				continue
			}
			newer += count
			newest = slices.MaxFunc([]string{newest, string(v)}, version.Compare)
		}
		if newer > 0 {
			list = append(list, fmt.Sprintf("%s of %s %s a version newer than the start version %s, up to %s: new hosts of the "+
				"group install the older one, and a rollback goes back to it (--start)",
				hosts(newer), excerpt(g.Name), verb("run", newer), start, newest))
		}
	}
	return list
}

// hostTime is how long a host holds its place in flight, as a rule: until its next
// poll, and through an update.
const hostTime = pollInterval

// pace is how a plan goes on.
type pace struct {
	left  int       // hosts that have not finished
	until time.Time // when the last one is expected to have
	limit time.Time // when the plan ends, whatever its hosts do
}

// paceOf returns the pace of a plan that has begun, or that begins at the given moment.
// It returns false if nothing can be said.
func paceOf(r *Rollout, g *GroupStatus, n *GroupCounts, begin time.Time) (p pace, ok bool) {
	if g.ConfigMaxInFlight == nil || g.Halted != nil || begin.IsZero() {
		return p, false
	}
	config := g.config()
	each := hostTime + config.jitter()/2
	whole, finished, now := n.Present-n.UpToDate, 0, begin
	if g.Plan != nil {
		whole, finished, begin = g.Plan.HostCount, g.Plan.LastActiveHostIndex+1-g.InFlightCount, g.Plan.StartTime
		if n.Flight != nil {
			finished = g.Plan.LastActiveHostIndex + 1 - n.Flight.InFlight
		}
	}
	places := g.ConfigMaxInFlight.Of(whole)
	if p.left = whole - finished; p.left <= 0 || places <= 0 {
		return p, false
	}
	rounds := (p.left + places - 1) / places
	p.until = now.Add(time.Duration(rounds) * each)
	if elapsed := now.Sub(begin); finished > 0 && elapsed >= 3*each {
		p.until = now.Add(time.Duration(float64(elapsed) / float64(finished) * float64(p.left)))
	}
	p.limit = begin.Add(expiry)
	switch {
	case !g.WindowEnd.IsZero() && g.State == Active:
		p.limit = g.WindowEnd
	case r.within(untilClosed):
		if w, inside := windowAt(g.ConfigDays, g.ConfigStartHour, time.Duration(r.Spec.Window), begin); inside {
			p.limit = w.to
		}
	}
	return p, true
}

// tooSlow returns a warning, or "" if a plan can come to its end in time.
func tooSlow(r *Rollout, g *GroupStatus, n *GroupCounts, now time.Time) string {
	begin := now
	switch {
	case g.State == Active:
	case g.State == Unstarted && r.within(untilClosed):
		begin = nextWindow(g.ConfigDays, g.ConfigStartHour, time.Duration(r.Spec.Window), now)
	case g.State == Unstarted && !r.Spec.AnyHour:
		begin = nextWindow(g.ConfigDays, g.ConfigStartHour, startTime, now)
	case g.State != Unstarted:
		return ""
	}
	p, ok := paceOf(r, g, n, begin)
	if !ok || !p.until.After(p.limit) {
		return ""
	}
	const raise = "a larger max_in_flight is faster"
	words := fmt.Sprintf("%s, so many at a time as max_in_flight %s allows, take about %s", hosts(p.left), g.ConfigMaxInFlight,
		roughly(p.until.Sub(begin)))
	if g.State == Active {
		words = fmt.Sprintf("at this pace its plan takes until %s", Clock(p.until))
	}
	if r.within(untilClosed) {
		if g.State == Active {
			return fmt.Sprintf("%s, and its window ends at %s: the hosts that are left wait for the next window; %s", words, Clock(p.limit), raise)
		}
		return fmt.Sprintf("%s, and its window is %s long: the hosts that are left wait for the next windows; %s", words,
			roughly(time.Duration(r.Spec.Window)), raise)
	}
	if g.State == Active {
		return fmt.Sprintf("%s, and it expires at %s, 24 hours after its start: the group is halted then; %s", words, Clock(p.limit), raise)
	}
	return fmt.Sprintf("%s, and a plan expires 24 hours after its start: the group will be halted then; %s", words, raise)
}

// healthWindow is how long an updater watches a new version by default.
const healthWindow = 30 * time.Second

// Warnings returns, with its path, each setting that is valid but probably a mistake.
func (c *Config) Warnings() (list []string) {
	agents := c.Spec.Agents
	for _, schedule := range []struct {
		name   string
		groups []Group
	}{{"regular", agents.Schedules.Regular}, {"critical", agents.Schedules.Critical}} {
		direct := before(schedule.groups)
		for i := range schedule.groups {
			g := &schedule.groups[i]
			path := fmt.Sprintf("spec.agents.schedules.%s[%d]", schedule.name, i)
			if least := healthWindow + g.jitter(); g.TimeoutSeconds != nil && g.timeout() < least {
				list = append(list, fmt.Sprintf("%s.timeout_seconds: %d is less than the time that a host may wait and watches the new "+
					"version, %d: sound hosts will time out",
					path, *g.TimeoutSeconds, int(least/time.Second)))
			}
			if g.FailureSeconds != nil && g.silence() > time.Duration(*g.FailureSeconds)*time.Second {
				list = append(list, fmt.Sprintf("%s.failure_seconds: %d is less than two polls of a host, and counts as %d", path, *g.FailureSeconds,
					int(goneFor/time.Second)))
			}
			if g.WaitHours > 0 && len(direct[i]) == 0 {
				list = append(list, fmt.Sprintf("%s.wait_hours: no group comes before it, and it waits for nothing", path))
			}
			if g.MaxInFlight != nil && g.MaxInFlight.N == 0 {
				list = append(list, fmt.Sprintf("%s.max_in_flight: none of its hosts will ever be told to update", path))
			}
			if g.threshold() == 0 {
				list = append(list, fmt.Sprintf("%s.max_failed_before_halt: with max_timeout_before_halt it allows for all hosts, and "+
					"the group is done as soon as it has started", path))
			}
		}
	}
	return list
}
