package rollout

import "time"

// Query has the parameters of a host's question. Any of them may be missing, or anything at all.
type Query struct {
	Group, Host, UpdaterID string
}

// Answer is find's answer to a host.
type Answer struct {
	// Version to run; empty for no agent.
	Version Semver
	// AutoUpdate says whether a host that runs another version updates now.
	AutoUpdate bool
	// Jitter bounds the wait before an update; -1 if neither group nor schedule sets
	// it.
	Jitter time.Duration
	// RetryFailed is when somebody had the group try the version again: a host on which
	// it failed before does not wait for the end of its back-off. It is zero if nobody
	// did, or if the host shall not update.
	RetryFailed time.Time
	// Row is the row of FindTable that the answer is from.
	Row *FindRow
	// Group is the index of the group whose answer this is, -1 without groups. Matched
	// says that the host named this group.
	Group   int
	Matched bool
}

// which is one of the versions of a rollout.
type which int

const (
	start which = iota
	target
	targetIfPicked // start for the other hosts
)

// who says which hosts shall update.
type who int

const (
	nobody who = iota
	everybody
	pickedOnes   // canaries
	beforeEnd    // all hosts until window_end, whether or not an engine closes the window
	placeReached // the hosts of the plan up to last_active_host_index
	ordered      // the host, by an order of its own
)

// FindRow is one row of the table of answers.
type FindRow struct {
	Mode    string // in words
	Group   string
	Version string
	Update  string
	holds   func(*view) bool
	version which
	update  who
}

// FindTable is the table of answers: the first row that holds counts.
// docs/teleport-find.md prints it.
var FindTable = []FindRow{
	{
		Mode: "disabled", Group: "any", Version: "target", Update: "false",
		holds:   func(v *view) bool { return v.mode == Disabled },
		version: target, update: nobody,
	},
	{
		Mode: "suspended", Group: "unstarted, canary, rolledback", Version: "start (rolledback: the version of the rollback)", Update: "false",
		holds:   func(v *view) bool { return v.mode == Suspended && v.in(Unstarted, Canarying, RolledBack) },
		version: start, update: nobody,
	},
	{
		Mode: "suspended", Group: "active, done; immediate schedule", Version: "target", Update: "false",
		holds:   func(v *view) bool { return v.mode == Suspended },
		version: target, update: nobody,
	},
	{
		Mode: "enabled", Group: "any, the host has an order to update", Version: "target, or the version of the order", Update: "true",
		holds:   func(v *view) bool { return v.ordered },
		version: target, update: ordered,
	},
	{
		Mode: "enabled", Group: "immediate schedule", Version: "target", Update: "true",
		holds:   func(v *view) bool { return v.schedule == Immediate },
		version: target, update: everybody,
	},
	{
		Mode: "enabled", Group: "unstarted", Version: "start", Update: "false",
		holds:   func(v *view) bool { return v.in(Unstarted) },
		version: start, update: nobody,
	},
	{
		Mode: "enabled", Group: "canary, halted", Version: "target for the picked, start for the rest", Update: "false",
		holds:   func(v *view) bool { return v.in(Canarying) && v.halted() },
		version: targetIfPicked, update: nobody,
	},
	{
		Mode: "enabled", Group: "canary", Version: "target for the picked, start for the rest", Update: "true for the picked only",
		holds:   func(v *view) bool { return v.in(Canarying) },
		version: targetIfPicked, update: pickedOnes,
	},
	{
		Mode: "enabled", Group: "active, halted by a failure or a timeout", Version: "target", Update: "false",
		holds:   func(v *view) bool { return v.in(Active) && v.halted() && v.group.Halted.Reason != Expired },
		version: target, update: nobody,
	},
	{
		Mode: "enabled", Group: "active with a plan, also halted since it expired", Version: "target",
		Update:  "the host's place ≤ last_active_host_index (time-based: only before window_end)",
		holds:   func(v *view) bool { return v.in(Active) && v.group.Plan != nil },
		version: target, update: placeReached,
	},
	{
		Mode: "enabled", Group: "active without a plan", Version: "target", Update: "true (time-based: only before window_end)",
		holds:   func(v *view) bool { return v.in(Active) },
		version: target, update: beforeEnd,
	},
	{
		Mode: "enabled", Group: "done, halt-on-error; done, critical at any hour", Version: "target", Update: "true",
		holds:   func(v *view) bool { return v.in(Done) && v.untilUpdated },
		version: target, update: everybody,
	},
	{
		Mode: "enabled", Group: "done, time-based", Version: "target", Update: "false",
		holds:   func(v *view) bool { return v.in(Done) },
		version: target, update: nobody,
	},
	{
		Mode: "enabled", Group: "rolledback", Version: "the version of the rollback: start, previous or a named one", Update: "true",
		holds:   func(v *view) bool { return v.in(RolledBack) },
		version: start, update: everybody,
	},
}

// view holds everything that the choice of a row depends on.
type view struct {
	mode     Mode
	schedule Schedule
	group    *GroupStatus // nil for none
	// untilUpdated is the scope of that name.
	untilUpdated bool
	ordered      bool // the host has an order to update
}

func (v *view) in(states ...State) bool {
	for _, s := range states {
		if v.group != nil && v.group.State == s {
			return true
		}
	}
	return false
}

func (v *view) halted() bool { return v.group.Halted != nil }

// Snapshot holds everything that answers depend on. It is made once for each change of
// a resource, and never changed, so any number of goroutines may use it.
type Snapshot struct {
	rollout      *Rollout
	groups       map[string]int
	groupAnswers []groupAnswer // of each group, and last the one of hosts without any
	hold         bool
	// overrides are the orders to single hosts, and ordered the answers to hosts that have one to update.
	overrides Overrides
	ordered   []groupAnswer
}

// groupAnswer is a row of the table, applied to a group.
type groupAnswer struct {
	row            *FindRow
	version, other Semver // other is for hosts that are not picked
	update         who
	jitter         time.Duration
	end, retry     time.Time
	canaries       map[HostID]bool // by host id and by updater id
	plan           *Index
	last           int
	group          int
	seen           view
}

// NewSnapshot returns the snapshot of resources. All but the version may be nil. plans
// holds the plan of each group with one; if a plan is missing, no host of its group
// updates.
//
// If the rollout belongs to another version, the answers come from the new rollout that
// the engine will begin. So a replaced version admits no host from that moment on,
// whether or not an engine runs.
func NewSnapshot(c *Config, v *Version, r *Rollout, plans map[string]*Index) *Snapshot {
	if r == nil || !r.Of(v) {
		r, plans = NewRollout(c, v, time.Time{}), nil
	}
	s := &Snapshot{rollout: r, groups: make(map[string]int), hold: r.Spec.Unmatched == Hold}
	seen := view{mode: EffectiveMode(c, v), schedule: r.Spec.Schedule, untilUpdated: r.within(untilUpdated)}
	for i := range r.Status.Groups {
		seen.group = &r.Status.Groups[i]
		s.groups[seen.group.Name] = i
		s.groupAnswers = append(s.groupAnswers, s.answerOf(seen, i, plans[seen.group.Name]))
	}
	if len(s.groupAnswers) == 0 {
		seen.group = nil
		if seen.schedule != Immediate {
			seen.group = &GroupStatus{State: Unstarted} // nobody's turn will come
		}
		s.groupAnswers = append(s.groupAnswers, s.answerOf(seen, -1, nil))
		s.hold = false
	}
	return s
}

func (s *Snapshot) answerOf(seen view, group int, plan *Index) groupAnswer {
	spec := s.rollout.Spec
	t := groupAnswer{jitter: -1, group: group, seen: seen}
	for i := range FindTable {
		if FindTable[i].holds(&seen) {
			t.row = &FindTable[i]
			break
		}
	}
	t.update = t.row.update
	t.version, t.other = spec.TargetVersion, spec.TargetVersion
	switch t.row.version {
	case start:
		t.version = spec.StartVersion
		if seen.group != nil && seen.group.State == RolledBack {
			t.version = s.rollout.back(seen.group)
		}
		t.other = t.version
	case targetIfPicked:
		t.other = spec.StartVersion
	}
	if spec.JitterSeconds != nil {
		t.jitter = time.Duration(*spec.JitterSeconds) * time.Second
	}
	if seen.group == nil {
		return t
	}
	if jitter := seen.group.ConfigJitterSeconds; jitter != nil {
		t.jitter = time.Duration(*jitter) * time.Second
	}
	if t.update == beforeEnd && (spec.Strategy != TimeBased || seen.group.WindowEnd.IsZero()) {
		t.update = everybody
	}
	if spec.Strategy == TimeBased {
		t.end = seen.group.WindowEnd
	}
	if seen.group.Plan != nil {
		t.plan, t.last = plan, seen.group.Plan.LastActiveHostIndex
	}
	t.retry = seen.group.RetryTime
	if len(seen.group.Canaries) > 0 {
		t.canaries = make(map[HostID]bool)
	}
	for _, canary := range seen.group.Canaries {
		for _, id := range []string{canary.HostID, canary.UpdaterID} {
			if id != "" {
				t.canaries[ParseHostID(id)] = true
			}
		}
	}
	return t
}

// With returns a snapshot in which hosts have orders of their own.
func (s *Snapshot) With(orders Overrides) *Snapshot {
	with := *s
	with.overrides, with.ordered = orders, nil
	for _, t := range s.groupAnswers {
		t.seen.ordered = true
		with.ordered = append(with.ordered, s.answerOf(t.seen, t.group, t.plan))
	}
	return &with
}

// override returns the order of a host.
func (s *Snapshot) override(q Query, now time.Time) (Override, bool) {
	if len(s.overrides) == 0 || q.Host == "" {
		return Override{}, false
	}
	return s.overrides.Of(ParseHostID(q.Host), q.Group, s.rollout, now)
}

// Rollout returns the rollout behind the answers. It must not be changed.
func (s *Snapshot) Rollout() *Rollout { return s.rollout }

// Find returns the answer to a host at a moment. It is a pure function.
func (s *Snapshot) Find(q Query, now time.Time) Answer {
	i, matched := s.groups[q.Group]
	if !matched {
		i = len(s.groupAnswers) - 1
	}
	t := &s.groupAnswers[i]
	order, has := s.override(q, now)
	if has && order.Action == UpdateHost {
		t = &s.ordered[i]
	}
	a := Answer{Version: t.version, Jitter: t.jitter, Row: t.row, Group: t.group, Matched: matched}
	if t.other != t.version && !t.picked(q) {
		a.Version = t.other
	}
	switch t.update {
	case everybody:
		a.AutoUpdate = true
	case pickedOnes:
		a.AutoUpdate = t.picked(q)
	case beforeEnd:
		a.AutoUpdate = now.Before(t.end)
	case placeReached:
		a.AutoUpdate = (t.end.IsZero() || now.Before(t.end)) && t.reached(q.Host)
	case ordered:
		a.AutoUpdate = true
		if order.To != "" {
			a.Version = order.To
		}
	}
	if s.hold && !matched && t.update != ordered || order.Action == HoldHost && has {
		a.AutoUpdate = false
	}
	if a.AutoUpdate && a.Version == s.rollout.Spec.TargetVersion {
		a.RetryFailed = t.retry
		if t.update == ordered {
			a.RetryFailed = later(t.retry, order.Since)
		}
	}
	return a
}

func (t *groupAnswer) picked(q Query) bool {
	return q.Host != "" && t.canaries[ParseHostID(q.Host)] || q.UpdaterID != "" && t.canaries[ParseHostID(q.UpdaterID)]
}

func (t *groupAnswer) reached(host string) bool {
	return host != "" && t.last >= 0 && t.plan.Within(ParseHostID(host), t.last)
}

// Channel returns the version for updaters of RFD 0109 that follow a group, and whether
// it is critical. Such an updater moves to any version that it gets: in its window or,
// if the version is critical, at once. So Channel returns only the version that hosts
// of the group shall update to now. It returns none before the turn of the group, if
// updates are disabled or suspended, if the group is halted, and while only some of its
// hosts have their turn. Without a version, an updater stays as it is. Only the target
// is ever critical: nobody hurries back.
func (s *Snapshot) Channel(group string, now time.Time) (v Semver, critical bool) {
	a := s.Find(Query{Group: group}, now)
	if !a.AutoUpdate {
		return "", false
	}
	hurry := s.rollout.Spec.Schedule == Critical || s.rollout.Spec.Schedule == Immediate
	return a.Version, hurry && a.Version == s.rollout.Spec.TargetVersion
}
