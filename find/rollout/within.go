package rollout

import (
	"slices"
)

// Limits bound the configurations that a server takes, for a server that others configure. Zero is no limit.
type Limits struct {
	// Groups is how many groups a schedule may have.
	Groups int
	// Days is how many days there may be from the start of the first group to the start of the last one. Days on which
	// no group may start do not count, so a schedule without Sundays is not longer.
	Days int
}

// Within returns an error that names everything beyond the limits. c has passed its
// Check.
func (c *Config) Within(l Limits) error {
	var found faults
	for _, schedule := range []struct {
		name   string
		groups []Group
	}{{"regular", c.Spec.Agents.Schedules.Regular}, {"critical", c.Spec.Agents.Schedules.Critical}} {
		path, groups := "spec.agents.schedules."+schedule.name, schedule.groups
		found.addf(l.Groups > 0 && len(groups) > l.Groups, "%s: there are %d groups, and this server takes no more than %d in a schedule", path,
			len(groups), l.Groups)
		if l.Days <= 0 || c.Spec.Agents.Strategy == TimeBased { // whose groups have their windows each day
			continue
		}
		hours := workingSpan(groups)
		found.addf(hours > 24*l.Days, "%s: from the start of the first group to that of the last one it takes %d hours, and this "+
			"server takes no more than %d days", path, hours, l.Days)
	}
	return found.err()
}

// workingSpan returns the most hours from the start of the first group to the start of the last one, if groups may
// start on each day.
func workingSpan(groups []Group) (worst int) {
	daily := slices.Clone(groups)
	wait := make([][maxSpan]int, len(daily))
	for i := range daily {
		daily[i].Days = []Day{EveryDay}
		wait[i] = waits(daily[i])
	}
	direct := before(daily)
	order, _ := topological(direct)
	starts := make([]int, len(daily))
	for release := range 24 {
		first, last := -1, 0
		for _, i := range order {
			ready := release
			for _, j := range direct[i] {
				ready = max(ready, starts[j]+1+daily[i].WaitHours)
			}
			starts[i] = ready + wait[i][ready%maxSpan]
			if first < 0 || starts[i] < first {
				first = starts[i]
			}
			last = max(last, starts[i])
		}
		worst = max(worst, last-first)
	}
	return worst
}
