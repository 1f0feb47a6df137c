package rollout

import (
	"fmt"
	"reflect"
	"time"
)

// EffectiveMode is the more restrictive of the modes that are set. If neither is set,
// agents are not updated. Both resources may be nil.
func EffectiveMode(c *Config, v *Version) Mode {
	order := []Mode{Disabled, Suspended, Enabled}
	var set []Mode
	if c != nil {
		set = append(set, c.Spec.Agents.Mode)
	}
	if v != nil {
		set = append(set, v.Spec.Agents.Mode)
	}
	for _, mode := range order {
		for _, m := range set {
			if m == mode {
				return mode
			}
		}
	}
	return Disabled
}

// Waiting returns the paths of differences between two configurations that take effect
// only with the next rollout. Both may be nil. The mode is not among the paths, since
// it acts at once.
func Waiting(before, after *Config) (paths []string) {
	var a, b ConfigAgents
	if before != nil {
		a = before.Spec.Agents
	}
	if after != nil {
		b = after.Spec.Agents
	}
	for _, part := range []struct {
		path          string
		before, after any
	}{
		{"spec.agents.strategy", a.Strategy, b.Strategy},
		{"spec.agents.maintenance_window_duration", a.Window, b.Window},
		{"spec.agents.unmatched", a.Unmatched, b.Unmatched},
		{"spec.agents.schedules.regular", a.Schedules.Regular, b.Schedules.Regular},
		{"spec.agents.schedules.critical", a.Schedules.Critical, b.Schedules.Critical},
		{"spec.agents.schedules.immediate", a.Schedules.Immediate, b.Schedules.Immediate},
	} {
		if !reflect.DeepEqual(part.before, part.after) {
			paths = append(paths, part.path)
		}
	}
	return paths
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
