package rollout

import (
	"fmt"
	"time"
)

// HostAction is what a person wants of one host, whatever its group says.
type HostAction string

// The actions. ReleaseHost ends the others.
const (
	UpdateHost  HostAction = "update"
	HoldHost    HostAction = "hold"
	ReleaseHost HostAction = "release"
)

// UnmarshalText takes the three words.
func (a *HostAction) UnmarshalText(text []byte) error {
	return word(a, text, UpdateHost, HoldHost, ReleaseHost)
}

// Override is a person's order to one host. It holds until it is released or its time is over. An order to update also ends
// with the rollout in which it was given: the host does not go ahead of its group for a version that nobody knew.
type Override struct {
	Action HostAction `json:"action"`
	// Target is the target of the rollout in which an update was ordered.
	Target Semver `json:"target,omitempty"`
	// To is the version of an update; empty for the target of the rollout.
	To    Semver    `json:"to,omitempty"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"` // zero for no end
}

// Words describe an override for people.
func (o Override) Words() string {
	text := "held"
	if o.Action == UpdateHost {
		text = "ordered to update"
	}
	if o.To != "" {
		text += " to " + string(o.To)
	}
	text += " since " + Clock(o.Since)
	if !o.Until.IsZero() {
		text += " until " + Clock(o.Until)
	}
	return text
}

// Overrides are the orders to hosts, by the ids of the hosts. One host has one order.
type Overrides map[string]Override

// MaxOverrides is how many hosts have an order of their own at most: more are a group.
const MaxOverrides = 1000

// Of returns the order that holds for a host at a moment, in a rollout to a target.
func (list Overrides) Of(host HostID, target Semver, now time.Time) (o Override, ok bool) {
	if len(list) == 0 {
		return o, false
	}
	o, ok = list[host.String()]
	ok = ok && (o.Until.IsZero() || now.Before(o.Until))
	return o, ok && (o.Action == HoldHost || o.Target == target)
}

// held returns the hosts that are held at a moment.
func (list Overrides) held(now time.Time) map[HostID]bool {
	held := make(map[HostID]bool)
	for id := range list {
		if o, ok := list.Of(ParseHostID(id), "", now); ok && o.Action == HoldHost {
			held[ParseHostID(id)] = true
		}
	}
	return held
}

// HostOrder is an order to a host that reports.
type HostOrder struct {
	Host     *Host
	Action   HostAction
	To       string // of an update: empty, start or a version
	Until    time.Time
	Who, Why string
}

// Apply returns the list with the order in it, without orders whose time is over. After an error, which is a *RefusedError,
// nothing has changed. Like Order.Apply it is a pure function.
func (o HostOrder) Apply(c *Config, v *Version, list Overrides, now time.Time) (Overrides, error) {
	now = moment(now)
	next, id, target := make(Overrides), o.Host.ID.String(), Semver("")
	if v != nil {
		target = v.Spec.Agents.TargetVersion
	}
	for host := range list {
		if old, ok := list.Of(ParseHostID(host), target, now); ok && host != id {
			next[host] = old
		}
	}
	made := Override{Action: o.Action, Since: now, Until: o.Until}
	name := nameOf(o.Host.Hostname, id)
	switch {
	case o.Action == ReleaseHost:
		if _, there := list.Of(o.Host.ID, target, now); !there {
			return nil, refuse("host %s has no order of its own: it follows its group", name)
		}
		return next, nil
	case v == nil:
		return nil, refuse("no version is set, and hosts have no order: set one with \"teleport-find set-version\"")
	case !o.Until.IsZero() && !o.Until.After(now):
		return nil, refuse("--until %s is over", Clock(o.Until))
	case o.To != "" && o.Action != UpdateHost:
		return nil, refuse("%s goes nowhere: --to is for update", o.Action)
	case len(next) >= MaxOverrides:
		return nil, refuse("%d hosts have orders of their own already: release some, or make a group of them", len(next))
	}
	if o.Action == UpdateHost {
		made.Target = target
		if why := o.whyNot(c, v, now); why != "" {
			return nil, refuse("host %s %s", name, why)
		}
	}
	switch o.To {
	case "":
	case BackToStart:
		made.To = NewRollout(c, v, now).Spec.StartVersion
	default:
		if err := made.To.UnmarshalText([]byte(o.To)); err != nil || made.To == "" {
			return nil, refuse("--to %s: it is neither start nor a version", excerpt(o.To))
		}
	}
	next[id] = made
	return next, nil
}

// whyNot returns why a host would not update, or "".
func (o HostOrder) whyNot(c *Config, v *Version, now time.Time) string {
	switch mode := EffectiveMode(c, v); {
	case mode != Enabled:
		return fmt.Sprintf("would not update: updates are %s", mode)
	case o.Host.Pinned:
		return "is pinned: only its owner ends that (teleport-update unpin)"
	case o.Host.Disabled:
		return "has updates disabled: only its owner ends that (teleport-update enable)"
	case !o.Host.present(now):
		return "does not report: its last report was at " + Clock(o.Host.LastSeen)
	}
	return ""
}
