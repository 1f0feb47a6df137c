package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// check compares a rollout with the one before.
func (h *history) check(before *Rollout, result Result) string {
	after := result.Rollout
	manual := func(r Reason) bool { return len(r) > 6 && r[:6] == "manual" }
	for i := range after.Status.Groups {
		a, b := &after.Status.Groups[i], &before.Status.Groups[i]
		if b.Halted != nil && (a.Halted == nil || a.State != b.State) {
			return fmt.Sprintf("group %s is not halted any more", a.Name)
		}
		if a.Halted != nil && manual(a.Halted.Reason) {
			return "a person has halted it"
		}
		if a.State != b.State {
			if EffectiveMode(h.config, h.version) != Enabled {
				return fmt.Sprintf("group %s went on although updates are not enabled", a.Name)
			}
			if !h.complete && a.LastUpdateReason != WindowClosed {
				return fmt.Sprintf("group %s went on to %s on counts that are not complete", a.Name, a.State)
			}
			if !forward(b.State, a.State, after.Spec.Strategy) {
				return fmt.Sprintf("group %s went from %s to %s", a.Name, b.State, a.State)
			}
		}
		if a.LastUpdateReason == InWindow && a.LastUpdateTime.Equal(h.now) && b.State != a.State && h.now.Before(h.promised[a.Name]) {
			return fmt.Sprintf("group %s has started before %s, and was to start then at the earliest", a.Name, h.promised[a.Name])
		}
		if b.State == Unstarted && a.State != Unstarted {
			if problem := h.mayHaveStarted(after, i); problem != "" {
				return problem
			}
		}
		if problem := h.index(a, b); problem != "" {
			return problem
		}
		if problem := h.waitsForHeld(a, b); problem != "" {
			return problem
		}
		// Each change has its time and its reason, and nothing else has.
		changed := a.State != b.State || (a.Halted == nil) != (b.Halted == nil) || !a.WindowEnd.Equal(b.WindowEnd) // one window may follow the other
		if same := a.LastUpdateTime.Equal(b.LastUpdateTime) && a.LastUpdateReason == b.LastUpdateReason; !changed && !same {
			return fmt.Sprintf("group %s has not changed, and has another time or reason of its last change: %s", a.Name, a.LastUpdateReason)
		}
		if changed && (!a.LastUpdateTime.Equal(h.now) || !slices.Contains(ownReasons, a.LastUpdateReason)) {
			return fmt.Sprintf("group %s has changed now, and says at %s because of %q", a.Name, a.LastUpdateTime, a.LastUpdateReason)
		}
	}
	if got, want := after.Status.State, stateOf(after); got != want {
		return fmt.Sprintf("the rollout is %s; want %s", got, want)
	}
	return ""
}

// ownReasons are those for which the engine changes a group by itself.
var ownReasons = []Reason{InWindow, CanariesDone, UpdateComplete, NoHosts, WindowClosed, CanaryFailed, CanaryTimedOut, HostsFailed, HostsTimedOut, Expired}

// stateOf is the state that the groups of a rollout give it, as the design says it.
func stateOf(r *Rollout) State {
	all := func(state State) bool {
		return !slices.ContainsFunc(r.Status.Groups, func(g GroupStatus) bool { return g.State != state })
	}
	switch {
	case slices.ContainsFunc(r.Status.Groups, func(g GroupStatus) bool { return g.State == RolledBack }):
		return RolledBack
	case len(r.Status.Groups) > 0 && all(Done):
		return Done
	case r.Spec.Schedule != Immediate && all(Unstarted):
		return Unstarted
	}
	return Active
}

func forward(from, to State, strategy Strategy) bool {
	order := []State{Unstarted, Canarying, Active, Done}
	if strategy == TimeBased && from == Done && to == Active {
		return true
	}
	i, j := slices.Index(order, from), slices.Index(order, to)
	return i >= 0 && j > i
}

// mayHaveStarted looks at the groups before, and the hour.
func (h *history) mayHaveStarted(r *Rollout, i int) string {
	g := &r.Status.Groups[i]
	if !r.Spec.AnyHour {
		length := time.Hour
		if r.Spec.Strategy == TimeBased {
			length = time.Duration(r.Spec.Window)
		}
		inside := false
		for t := h.now.Add(-length); !t.After(h.now); t = t.Add(time.Minute) {
			begins := t.Truncate(time.Hour)
			if begins.Hour() == g.ConfigStartHour && (slices.Contains(g.ConfigDays, EveryDay) || slices.Contains(g.ConfigDays, Day(begins.Format("Mon")))) && h.now.Sub(begins) < length {
				inside = true
			}
		}
		if !inside {
			return fmt.Sprintf("group %s started outside of its hours", g.Name)
		}
	}
	if r.Spec.Strategy == TimeBased {
		return ""
	}
	explicit := slices.ContainsFunc(r.Status.Groups, func(g GroupStatus) bool { return len(g.ConfigRequires) > 0 })
	var look func(i int, first bool) string
	look = func(i int, first bool) string {
		of := &r.Status.Groups[i]
		if !first && (of.State != Done || of.Halted != nil) {
			return fmt.Sprintf("group %s started before %s was done", g.Name, of.Name)
		}
		if !first && !r.Spec.AnyHour && h.now.Before(of.DoneTime.Add(time.Duration(g.ConfigWaitHours)*time.Hour)) {
			return fmt.Sprintf("group %s did not wait for %d hours after %s", g.Name, g.ConfigWaitHours, of.Name)
		}
		if !explicit {
			if i == 0 {
				return ""
			}
			return look(i-1, false)
		}
		for _, name := range of.ConfigRequires {
			if problem := look(r.group(name), false); problem != "" {
				return problem
			}
		}
		return ""
	}
	return look(i, true)
}

// index counts who is in flight by itself.
func (h *history) index(a, b *GroupStatus) string {
	if a.Plan == nil || b.Plan == nil || !a.Plan.StartTime.Equal(b.Plan.StartTime) {
		return ""
	}
	from, to := b.Plan.LastActiveHostIndex, a.Plan.LastActiveHostIndex
	switch {
	case to < from:
		return fmt.Sprintf("the index of %s went back from %d to %d", a.Name, from, to)
	case to == from:
		return ""
	case a.Halted != nil:
		return fmt.Sprintf("the index of %s grew although it is halted", a.Name)
	case h.now.Sub(b.Plan.IndexTime) < 10*time.Second:
		return fmt.Sprintf("the index of %s was written twice in ten seconds", a.Name)
	case !h.complete:
		return fmt.Sprintf("the index of %s grew on counts that are not complete", a.Name)
	}
	h.covered["an index grew"] = true
	limit := a.ConfigMaxInFlight.N
	if a.ConfigMaxInFlight.Percent {
		limit = limit * a.Plan.HostCount / 100
		if limit == 0 && a.ConfigMaxInFlight.N > 0 {
			limit = 1
		}
	}
	if limit > 1 {
		h.covered["an index of several hosts grew"] = true
	}
	flying, admitted := 0, make(map[HostID]bool)
	target := h.rollout.Spec.TargetVersion
	for place := range to + 1 {
		id := h.plans[a.Name].ID(place)
		host := h.fleet.byID[id]
		admitted[id] = true
		if host == nil { // it is forgotten, and was not heard of
			if place > from {
				flying++
			}
			continue
		}
		if told := host.Told; told.Target == h.rollout.Spec.TargetVersion && told.At.Before(a.StartTime) {
			h.covered["told before a trial"] = true
		}
		told := host.Told.Target == target && !(host.Told.At.Before(a.StartTime) && host.LastSeen.Before(a.StartTime))
		toldAt := host.Told.At
		if toldAt.Before(a.StartTime) {
			toldAt = a.StartTime // a retry gives it the time again
		}
		begun := host.Begun.Target == target && !host.Begun.At.Before(a.StartTime)
		quiet := h.now.Sub(host.LastSeen)
		switch {
		case host.Version == target:
		case host.Failed.Target == target && !host.Failed.At.Before(a.StartTime):
		case host.Pinned, host.Disabled, h.groupOf(host) != a.Name, h.keptApart(host, target):
		case told && h.now.Sub(toldAt) >= time.Duration(given(a.ConfigTimeoutSeconds, 3600)+given(a.ConfigJitterSeconds, 0))*time.Second:
		case begun && quiet > max(20*time.Minute, time.Duration(given(a.ConfigFailureSeconds, 0))*time.Second):
		case !told && !begun && quiet > 25*time.Minute && place <= from: // silent, and gone
		default:
			flying++
		}
	}
	// An agent that is down holds a place, wherever its host is in the plan.
	down := 0
	for place := to + 1; place < a.Plan.HostCount; place++ {
		if host := h.fleet.byID[h.plans[a.Name].ID(place)]; host != nil && host.Unhealthy && host.omitted(h.now) == "" && h.groupOf(host) == a.Name && !h.keptApart(host, target) {
			down++
		}
	}
	if down > 0 {
		h.covered["an index grew while agents were down"] = true
	}
	if flying += down; flying > limit {
		return fmt.Sprintf("%d hosts of %s are in flight, of %d at most", flying, a.Name, limit)
	}
	return ""
}

// groupOf is the group that counts for a host; empty for none.
func (h *history) groupOf(host *Host) string {
	groups := h.rollout.Status.Groups
	switch {
	case h.rollout.group(host.Group) >= 0:
		return host.Group
	case h.rollout.Spec.Unmatched == Hold:
		return ""
	}
	return groups[len(groups)-1].Name
}

// ask has everybody ask at once, and says what is wrong with the answers.
func (h *history) ask() string {
	s := h.snapshot()
	without := NewSnapshot(h.config, h.version, h.rollout, h.plans)
	mode := EffectiveMode(h.config, h.version)
	yes := make(map[string]map[string]bool) // by group
	for _, host := range h.fleet.hosts {
		q := Query{Group: host.Group, Host: host.ID.String(), UpdaterID: host.UpdaterID.String()}
		a := s.Find(q, h.now)
		if h.IntN(8) == 0 && s.Find(q, h.now) != a {
			return "the same question has two answers"
		}
		ofGroup := without.Find(q, h.now)
		if problem := h.ordered(host, a, ofGroup, mode); problem != "" {
			return problem
		}
		a = ofGroup // the rest is about what groups are told
		wanted := h.version.Spec.Agents
		back := a.Group >= 0 && s.Rollout().Status.Groups[a.Group].State == RolledBack && a.Version == s.Rollout().Status.Groups[a.Group].RollbackVersion
		if back {
			h.covered["a group that was rolled back was asked"] = true
		} else if a.Version != wanted.TargetVersion && a.Version != cmp.Or(wanted.StartVersion, wanted.TargetVersion) {
			return fmt.Sprintf("host %s is told %s, which is neither the start nor the target", host.Hostname, a.Version)
		}
		if a.AutoUpdate && mode != Enabled {
			return fmt.Sprintf("host %s is told to update while updates are %s", host.Hostname, mode)
		}
		if a.AutoUpdate && a.Group >= 0 {
			name := s.Rollout().Status.Groups[a.Group].Name
			if yes[name] == nil {
				yes[name] = make(map[string]bool)
			}
			yes[name][host.ID.String()] = true
		}
	}
	if h.rollout == nil || !h.rollout.Of(h.version) {
		h.last = make(map[string]map[string]bool)
		if h.version.Spec.Agents.Schedule != Immediate && len(yes) > 0 {
			return "hosts are told to update to a version whose rollout has not begun"
		}
		return ""
	}
	for i := range h.rollout.Status.Groups {
		g := &h.rollout.Status.Groups[i]
		if h.rollout.Spec.Strategy == TimeBased && g.State == Active && !g.WindowEnd.IsZero() && !h.now.Before(g.WindowEnd) {
			h.covered["a closed window was asked"] = true
			if len(yes[g.Name]) > 0 {
				return fmt.Sprintf("hosts of %s are told to update after its window", g.Name)
			}
		}
		if g.Halted == nil {
			delete(h.last, g.Name)
			continue
		}
		h.covered["a halted group was asked"] = true
		if g.Halted.Reason != Expired && len(yes[g.Name]) > 0 {
			return fmt.Sprintf("hosts of %s are told to update although it is halted", g.Name)
		}
		if before, ok := h.last[g.Name]; ok && mode == Enabled {
			for id := range yes[g.Name] {
				if !before[id] {
					return fmt.Sprintf("halted group %s admits %s", g.Name, id)
				}
			}
		}
		if _, ok := h.last[g.Name]; !ok && mode == Enabled {
			h.last[g.Name] = maps.Clone(yes[g.Name])
		}
	}
	return ""
}
