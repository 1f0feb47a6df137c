package simulate

import (
	"context"
	"time"

	"teleport-update/find/rollout"
)

const (
	// estimateHosts is how many hosts of a group are tried: more take longer and say
	// the same.
	estimateHosts = 40
	// estimateFor is how far an estimate looks ahead.
	estimateFor = 14 * 24 * time.Hour
)

// Estimate is when a group is expected to start and to be done; zero if it is not
// within two weeks.
type Estimate struct {
	Start, Done time.Time
}

// EstimateGroups tries what is left of a rollout with hosts that update as usual: as many as
// report, on the versions that they run, or as many of each group as stand for them.
// The same overview at the same moment has the same estimates.
func EstimateGroups(ctx context.Context, c *rollout.Config, v *rollout.Version, now rollout.Overview, at time.Time) (map[string]Estimate,
	error) {
	version := *v
	if version.Spec.Agents.StartVersion == "" {
		version.Spec.Agents.StartVersion = version.Spec.Agents.TargetVersion
	}
	s := Scenario{
		Config: scaled(c, now), Version: &version, Hosts: make(map[string]int), Poll: 10 * time.Minute, Spread: time.Minute,
		Update: 2 * time.Minute,
		Jitter: time.Minute, Begin: at, For: estimateFor, Seed: 1, begun: make(map[string]rollout.GroupOverview),
	}
	for _, g := range now.Groups {
		s.Hosts[g.Name] = min(g.Present, estimateHosts)
		s.begun[g.Name] = g
	}
	report, err := Run(ctx, s)
	if err != nil {
		return nil, err
	}
	estimates := make(map[string]Estimate)
	for _, e := range report.Events {
		one := estimates[e.Group]
		switch {
		case e.Group == "" || e.Reason == "":
		case e.step.To == rollout.Done && one.Done.IsZero():
			one.Done = e.Time
		case e.step.From == rollout.Unstarted && one.Start.IsZero():
			one.Start = e.Time
		}
		estimates[e.Group] = one
	}
	return estimates, nil
}

// scaled is the configuration for the hosts that are tried: a number of hosts in flight
// becomes as large a part of these.
func scaled(c *rollout.Config, now rollout.Overview) *rollout.Config {
	if c == nil {
		return rollout.NewConfig()
	}
	present := make(map[string]int)
	for _, g := range now.Groups {
		present[g.Name] = g.Present
	}
	next := *c
	schedules := &next.Spec.Agents.Schedules
	for _, list := range []*[]rollout.Group{&schedules.Regular, &schedules.Critical} {
		groups := append([]rollout.Group(nil), *list...)
		for i := range groups {
			limit, n := groups[i].MaxInFlight, present[groups[i].Name]
			if limit != nil && !limit.Percent && limit.N > 0 && n > estimateHosts {
				groups[i].MaxInFlight = &rollout.Share{N: max(1, limit.N*estimateHosts/n)}
			}
		}
		*list = groups
	}
	return &next
}

// resume puts groups where they are in the rollout that is estimated: those that are
// done, with hosts on the target, and those that have started, which start again. Those
// that are halted or were rolled back wait for a person, and the groups behind them wait
// for these.
func (w *world) resume() {
	for i := range w.rollout.Status.Groups {
		g := &w.rollout.Status.Groups[i]
		was, known := w.scenario.begun[g.Name]
		switch {
		case !known:
		case was.Halted != nil || was.State == rollout.RolledBack:
			g.State, g.Halted, g.LastUpdateTime = was.State, was.Halted, was.Since
		case was.State == rollout.Done:
			g.State, g.DoneTime, g.LastUpdateTime = rollout.Done, was.Since, was.Since
		case was.State == rollout.Active || was.State == rollout.Canarying:
			result, err := rollout.Order{Verb: rollout.StartUpdate, Groups: []string{g.Name}, Force: true}.
				Apply(w.scenario.Config, w.scenario.Version, w.rollout, w.counts(), w.now)
			if err == nil {
				w.take(result)
			}
		}
	}
	w.shoot()
}

// version is what the host in a place of its group runs at the beginning: the parts
// of a group are those that report.
func (s *Scenario) version(group string, place int) rollout.Semver {
	g, known := s.begun[group]
	if !known || g.Present == 0 {
		return s.Version.Spec.Agents.StartVersion
	}
	if target := s.Version.Spec.Agents.TargetVersion; place*g.Present < g.Versions[target]*min(g.Present, estimateHosts) {
		return target
	}
	return s.Version.Spec.Agents.StartVersion
}
