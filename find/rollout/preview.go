package rollout

import (
	"fmt"
	"time"
)

// Start is when a group starts, as far as it can be said.
type Start struct {
	Group string
	State State
	// At is when the group starts, or has started; zero if something has to
	// happen first, which Waits says.
	At    time.Time
	Waits string
	// After is a group that has to be done first, so that the start may be later than At.
	After string
}

// Preview says when each group of a rollout starts at the earliest: no group starts
// before that by itself. It assumes that a group is done as soon as it has started, as
// if its hosts were on the target already; a simulation shows how long it really takes.
// If the rollout belongs to another version, Preview looks at the new one. The config
// and the rollout may be nil.
func Preview(c *Config, v *Version, r *Rollout, now time.Time) []Start {
	now = moment(now)
	if r == nil || !r.Of(v) {
		r = NewRollout(c, v, now)
	}
	p := &preview{r: r, now: now, mode: EffectiveMode(c, v), groups: r.groups()}
	p.direct = before(p.groups)
	p.starts, p.done = make([]Start, len(p.groups)), make([]time.Time, len(p.groups))
	order, _ := topological(p.direct)
	for _, i := range order {
		p.starts[i] = p.start(i)
	}
	return p.starts
}

// preview goes through the groups, each after those before it.
type preview struct {
	r      *Rollout
	now    time.Time
	mode   Mode
	groups []Group
	direct [][]int
	starts []Start
	done   []time.Time // at the earliest; zero if something has to happen first
}

func (p *preview) start(i int) Start {
	g := &p.r.Status.Groups[i]
	at := Start{Group: g.Name, State: g.State, At: g.StartTime}
	switch {
	case g.Halted != nil:
		at.Waits = fmt.Sprintf("it is halted (%s)", g.Halted.Reason)
	case g.State == RolledBack:
		at.Waits = "it was rolled back"
	case g.State == Done && p.r.within(untilUpdated):
		p.done[i] = g.DoneTime
	case g.State == Canarying || g.State == Active:
		p.done[i] = p.now
	case p.mode != Enabled:
		at.Waits = fmt.Sprintf("updates are %s", p.mode)
	case p.r.within(untilClosed):
		at.At = p.opening(g)
	case p.r.within(onTheirOwn):
		at.At = p.now
	default:
		at.At, at.Waits = p.turn(i)
		p.done[i] = at.At
		at.After = p.waitsFor(i)
	}
	return at
}

// opening is the next window that ends later than the last one of the group.
func (p *preview) opening(g *GroupStatus) time.Time {
	length := time.Duration(p.r.Spec.Window)
	at := nextWindow(g.ConfigDays, g.ConfigStartHour, length, p.now)
	for {
		w, _ := windowAt(g.ConfigDays, g.ConfigStartHour, length, at)
		if w.to.After(g.WindowEnd) {
			return at
		}
		at = nextWindow(g.ConfigDays, g.ConfigStartHour, length, w.to)
	}
}

// waitsFor returns a group that has to be done before another one, and is not.
func (p *preview) waitsFor(i int) string {
	for _, j := range p.direct[i] {
		if g := &p.r.Status.Groups[j]; g.State != Done {
			return g.Name
		}
	}
	return ""
}

// turn is the first hour in which a group may start once those before it are done.
func (p *preview) turn(i int) (at time.Time, waits string) {
	g := &p.r.Status.Groups[i]
	ready := p.now
	for _, j := range p.direct[i] {
		if p.done[j].IsZero() {
			return time.Time{}, fmt.Sprintf("group %s has to be done first", excerpt(p.groups[j].Name))
		}
		wait := time.Duration(g.ConfigWaitHours) * time.Hour
		if p.r.Spec.AnyHour {
			wait = 0
		}
		ready = later(ready, p.done[j].Add(wait))
	}
	if p.r.Spec.AnyHour {
		return ready, ""
	}
	return nextWindow(g.ConfigDays, g.ConfigStartHour, startTime, ready), ""
}
