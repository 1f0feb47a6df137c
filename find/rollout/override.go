package rollout

import (
	"cmp"
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
// with the rollout in which it was given: the host does not go ahead of its group for a version that nobody knew. It ends if the
// host's group, that of the order or that of now, is halted or rolled back after it.
type Override struct {
	Action HostAction `json:"action"`
	// Target is the target of the rollout in which an update was ordered, Group the group that the host was in then.
	Target Semver `json:"target,omitempty"`
	Group  string `json:"group,omitempty"`
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

// Reason is the sentence that explains the host's answer.
func (o Override) Reason() string {
	return fmt.Sprintf("The host is %s (hosts ID release ends that).", o.Words())
}

// Overrides are the orders to hosts, by the ids of the hosts. One host has one order.
type Overrides map[string]Override

// MaxOverrides is how many hosts have an order of their own at most: more are a group.
const MaxOverrides = 1000

// Of returns the order that holds for a host of a group at a moment. Without a rollout, nil, only a hold does.
func (list Overrides) Of(host HostID, group string, r *Rollout, now time.Time) (o Override, ok bool) {
	if len(list) == 0 {
		return o, false
	}
	o, ok = list[host.String()]
	switch {
	case !ok || !o.Until.IsZero() && !now.Before(o.Until):
		return o, false
	case o.Action == HoldHost:
		return o, true
	case r == nil || r.Status.StartTime.IsZero() || o.Target != r.Spec.TargetVersion:
		return o, false
	}
	return o, o.Since.After(later(r.updatesSince(group), r.updatesSince(o.Group)))
}

// updatesSince returns the moment after which an order to update must have been given to hold for a host of a group: the start
// of the rollout, or when the group was halted or rolled back last.
func (r *Rollout) updatesSince(group string) time.Time {
	i := r.group(group)
	if i < 0 {
		i = len(r.Status.Groups) - 1 // its answer is for hosts of no group
	}
	if i < 0 {
		return r.Status.StartTime
	}
	return later(r.Status.StartTime, r.Status.Groups[i].StoppedTime)
}

// omitted returns why an order keeps its host out of all counts of a rollout to a target, or "".
func (o Override) omitted(target Semver) string {
	switch {
	case o.Action == HoldHost:
		return omitHeld
	case o.To != "" && o.To != target:
		return omitElsewhere
	}
	return ""
}

// HostOrder is an order to a host that reports. A release may be for any host.
type HostOrder struct {
	Host     *Host
	Action   HostAction
	To       string // of an update: empty, start or a version
	Until    time.Time
	Who, Why string
	// Known returns the host of an id, or nil. If it is missing, nobody knows yet which hosts there are.
	Known func(HostID) *Host
}

// Apply returns the list with the order in it, without orders that do not hold and orders of unknown hosts. After an error,
// which is a *RefusedError, nothing has changed. Like Order.Apply it is a pure function.
func (o HostOrder) Apply(c *Config, v *Version, r *Rollout, list Overrides, now time.Time) (Overrides, error) {
	now = moment(now)
	if v == nil || r != nil && !r.Of(v) {
		r = nil
	}
	next, id := make(Overrides), o.Host.ID.String()
	for host, old := range list {
		if host != id && o.keeps(list, ParseHostID(host), r, now) {
			next[host] = old
		}
	}
	made := Override{Action: o.Action, Since: now, Until: o.Until}
	name := nameOf(o.Host.Hostname, id)
	switch {
	case o.Action == ReleaseHost:
		if _, there := list[id]; !there {
			return nil, refuse("host %s has no order of its own: it follows its group", name)
		}
		return next, nil
	case v == nil && o.Action == UpdateHost:
		return nil, refuse("no version is set, and hosts have none to update to: set one with \"teleport-find set-version\"")
	case r == nil && o.Action == UpdateHost:
		return nil, refuse("the rollout of version %s has not begun: the server begins it at its next tick", v.Spec.Agents.TargetVersion)
	case !o.Until.IsZero() && !o.Until.After(now):
		return nil, refuse("--until %s is over", Clock(o.Until))
	case o.To != "" && o.Action != UpdateHost:
		return nil, refuse("%s goes nowhere: --to is for update", o.Action)
	case len(next) >= MaxOverrides:
		return nil, refuse("%d hosts have orders of their own already: release some, or make a group of them", len(next))
	}
	if o.Action == UpdateHost {
		made.Target, made.Group = r.Spec.TargetVersion, o.Host.Group
		// Times are in whole seconds, and another server may have written that one, by its own clock.
		made.Since = later(now, r.updatesSince(o.Host.Group).Add(time.Second))
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

// HostChoices returns the orders to a host that reports and that the server would take now, the safe one first. An order that
// changes nothing is left out.
func HostChoices(h *Host, c *Config, v *Version, r *Rollout, list Overrides, now time.Time) (choices []Choice) {
	id := h.ID.String()
	order, ordered := list.Of(h.ID, h.Group, r, now)
	does := map[HostAction]string{
		ReleaseHost: "ends its order (" + list[id].Words() + "): it follows its group again",
		HoldHost: "tells it to stay on " + cmp.Or(string(h.Version), "no version") +
			" whatever its group is told, and leaves it out of all counts",
	}
	if ordered && order.Action == HoldHost {
		delete(does, HoldHost)
	}
	if !ordered {
		delete(does, ReleaseHost) // it has none, or one that is over
	}
	if r != nil && (ordered || h.Version != r.Spec.TargetVersion) {
		does[UpdateHost] = "tells it to update to " + string(r.Spec.TargetVersion) + " whatever its group is told"
	}
	for _, action := range []HostAction{ReleaseHost, HoldHost, UpdateHost} {
		if _, err := (HostOrder{Host: h, Action: action}).Apply(c, v, r, list, now); err != nil || does[action] == "" {
			continue
		}
		choices = append(choices, Choice{Command: "hosts " + id + " " + string(action), Does: does[action], Verb: Verb(action), Host: id})
	}
	return choices
}

// keeps reports whether the order of another host stays in the list.
func (o HostOrder) keeps(list Overrides, host HostID, r *Rollout, now time.Time) bool {
	if o.Known == nil {
		return true
	}
	h := o.Known(host)
	if h == nil {
		return false
	}
	_, holds := list.Of(host, h.Group, r, now)
	return holds
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
