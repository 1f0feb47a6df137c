package rollout

import (
	"cmp"
	"errors"
	"reflect"
)

// Answer is what all hosts are told.
type Answer struct {
	AgentVersion Semver
	// AutoUpdate says whether hosts that run another version update now.
	AutoUpdate bool
}

// EffectiveMode is the more restrictive one of the two that are set; where none
// is, agents are not updated. Either resource may be nil.
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

// Decide returns what hosts are told where there is no rollout.
//
// The schedule immediate has none: its version is for every host, and it is the
// mode alone that says whether they go there by themselves. While updates are
// suspended or disabled new hosts install the target all the same, since it is as
// far along for them as for any other host.
//
// A regular version without a rollout is one that no group has started with: hosts
// are told the start version and to stay as they are, unless updates are disabled,
// which is to say that others take care of them, and the target is what they need
// to know.
func Decide(c *Config, v *Version) Answer {
	agents := v.Spec.Agents
	mode := EffectiveMode(c, v)
	if agents.Schedule != Immediate && mode != Disabled {
		return Answer{AgentVersion: cmp.Or(agents.StartVersion, agents.TargetVersion)}
	}
	return Answer{AgentVersion: agents.TargetVersion, AutoUpdate: agents.Schedule == Immediate && mode == Enabled}
}

// Unsupported says what a resource asks for that this server cannot do: it has no
// engine that would take hosts to a version group by group.
func Unsupported(r Resource) error {
	if v, ok := r.(*Version); ok && v.Spec.Agents.Schedule != Immediate {
		return errors.New(`spec.agents.schedule: "regular", which is the default, takes groups to the version one after the other, and this server cannot do that yet. ` +
			`Use "immediate", which is for every host at once, or "teleport-find serve --groups FILE", which gives groups versions of their own`)
	}
	return nil
}

// Waiting returns the paths of what differs between two configurations, either of
// which may be nil, and takes effect with the next rollout only. The mode, which
// acts at once, is not among them.
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
		{"spec.agents.schedules", a.Schedules, b.Schedules},
	} {
		if !reflect.DeepEqual(part.before, part.after) {
			paths = append(paths, part.path)
		}
	}
	return paths
}
