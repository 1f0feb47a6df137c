package rollout

import (
	"fmt"
	"time"
)

// Start is when a group starts, as far as it can be said.
type Start struct {
	Group string
	State State
	// At is when the group starts, or has started; zero where something has to
	// happen first, which Waits says.
	At    time.Time
	Waits string
}

// Preview says when each group of a rollout starts, if every group is done an hour
// after its start: how long one really takes is for its hosts to show. Where the
// rollout is not that of the version, it is the new one that is looked at. The
// config and the rollout may be nil.
func Preview(c *Config, v *Version, r *Rollout, now time.Time) []Start {
	now = moment(now)
	if r == nil || !r.Of(v) {
		r = NewRollout(c, v, now)
	}
	groups := r.groups()
	direct := before(groups)
	order, _ := topological(direct)
	starts, done := make([]Start, len(groups)), make([]time.Time, len(groups))
	mode := EffectiveMode(c, v)
	for _, i := range order {
		g := &r.Status.Groups[i]
		at := &starts[i]
		*at = Start{Group: g.Name, State: g.State, At: g.StartTime}
		switch {
		case g.Halted != nil:
			at.Waits = fmt.Sprintf("it is halted (%s)", g.Halted.Reason)
		case g.State == RolledBack:
			at.Waits = "it was rolled back"
		case g.State == Done && r.within(untilUpdated):
			done[i] = g.DoneTime
		case g.State == Canarying || g.State == Active:
			done[i] = later(now, g.StartTime.Add(startTime))
		case mode != Enabled:
			at.Waits = fmt.Sprintf("updates are %s", mode)
		case r.Spec.AnyHour && r.Spec.Strategy == TimeBased:
			at.At = now
		case r.Spec.Strategy == TimeBased:
			at.At = nextWindow(g.ConfigDays, g.ConfigStartHour, time.Duration(r.Spec.Window), later(now, g.WindowEnd))
		default:
			ready := now
			for _, j := range direct[i] {
				if done[j].IsZero() {
					at.Waits = fmt.Sprintf("group %s has to be done first", excerpt(groups[j].Name))
					break
				}
				wait := time.Duration(g.ConfigWaitHours) * time.Hour
				if r.Spec.AnyHour {
					wait = 0
				}
				ready = later(ready, done[j].Add(wait))
			}
			if at.Waits == "" {
				at.At = ready
				if !r.Spec.AnyHour {
					at.At = nextWindow(g.ConfigDays, g.ConfigStartHour, startTime, ready)
				}
				done[i] = at.At.Truncate(time.Hour).Add(startTime)
			}
		}
	}
	return starts
}
