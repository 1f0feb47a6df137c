package rollout

import (
	"slices"
	"time"
)

// Scene holds everything that a person's look at a rollout depends on.
type Scene struct {
	Config  *Config  // may be nil
	Version *Version // nil: none is set
	Rollout *Rollout // may be nil
	Counts  Counts   // of the rollout
	// CompleteAt is when the counts will be complete; zero if nobody knows.
	CompleteAt time.Time
	Now        time.Time
}

// sight is a scene with derived values for the rows.
type sight struct {
	Scene
	target Semver
	mode   Mode
	groups []GroupStatus
	engine *engine // of offer
}

func newSight(s Scene) *sight {
	s.Rollout = s.counted()
	v := &sight{Scene: s}
	if s.Version != nil {
		v.target, v.mode = s.Version.Spec.Agents.TargetVersion, EffectiveMode(s.Config, s.Version)
	}
	if s.Rollout != nil {
		v.groups = s.Rollout.Status.Groups
	}
	return v
}

// counted returns the rollout with the present counts: its own are up to a minute old.
func (s Scene) counted() *Rollout {
	if s.Rollout == nil || s.Version == nil || !s.Rollout.Of(s.Version) {
		return s.Rollout
	}
	e := newEngine(s.Rollout, s.Counts, s.Now)
	e.refresh()
	for i, step := range e.steps {
		if s.soFar(i) {
			counts := step.g.counts()
			counts.present, counts.upToDate, counts.unhealthy = step.n.Present, step.n.UpToDate, step.n.Unhealthy
			step.g.setCounts(counts)
		}
	}
	return e.r
}

// soFar reports whether the counts of a group are of the hosts that have reported so far: the server does not know all
// hosts yet, and these are more than the last complete count has.
func (s Scene) soFar(group int) bool {
	return !s.Counts.Complete && group < len(s.Counts.Groups) && s.Counts.Groups[group].Present > s.Rollout.Status.Groups[group].PresentCount
}

// starts says when the groups start at the earliest. No group starts before the server knows all hosts.
func (s Scene) starts(r *Rollout) []Start {
	from := s.Now
	if !s.Counts.Complete {
		from = later(from, s.CompleteAt)
	}
	return Preview(s.Config, s.Version, r, from)
}

// reported is the number of hosts that have reported so far; 0 if the server knows all hosts.
func (v *sight) reported() (hosts int) {
	r := v.Rollout
	if v.Counts.Complete || v.Version == nil || r == nil || !r.Of(v.Version) || v.Counts.Subject != r.Subject() {
		return 0
	}
	for i := range v.Counts.Groups {
		hosts += v.Counts.Groups[i].Present
	}
	return hosts
}

// lastStep is when a group took its last step, or the rollout began.
func (v *sight) lastStep() (at time.Time) {
	if v.Rollout == nil || !v.Rollout.Of(v.Version) {
		return at
	}
	at = v.Rollout.Status.StartTime
	for i := range v.groups {
		at = later(at, v.groups[i].LastUpdateTime)
	}
	return at
}

func isPointedOut(g *GroupStatus) bool { return len(g.Conditions) > 0 }

func in(states ...State) func(*GroupStatus) bool {
	return func(g *GroupStatus) bool { return slices.Contains(states, g.State) }
}

// standing is the first group that is halted. Groups that a rollback of the rollout
// halted do not count while any group is rolled back.
func (v *sight) standing() *GroupStatus {
	rolledBack := v.first(in(RolledBack)) != nil
	return v.first(func(g *GroupStatus) bool {
		return g.Halted != nil && (g.Halted.Reason != RolloutRollback || !rolledBack)
	})
}

func (v *sight) first(holds func(*GroupStatus) bool) *GroupStatus {
	if list := v.all(holds); len(list) > 0 {
		return list[0]
	}
	return nil
}

func (v *sight) all(holds func(*GroupStatus) bool) (list []*GroupStatus) {
	for i := range v.groups {
		if holds(&v.groups[i]) {
			list = append(list, &v.groups[i])
		}
	}
	return list
}

func (v *sight) heldUp() bool {
	if v.Counts.Complete || v.first(in(Canarying, Active)) != nil {
		return !v.Counts.Complete
	}
	start, ok := v.next()
	return ok && (v.CompleteAt.IsZero() || !start.At.After(v.CompleteAt))
}

// next is the group that starts first, of those that wait for no other group.
func (v *sight) next() (next Start, ok bool) {
	for _, start := range v.starts(v.Rollout) {
		if start.State == Unstarted && start.Waits == "" && start.After == "" && (!ok || start.At.Before(next.At)) {
			next, ok = start, true
		}
	}
	return next, ok
}
