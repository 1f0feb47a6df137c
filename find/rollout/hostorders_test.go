package rollout

import (
	"fmt"
	"maps"
	"time"
)

// hostGiven is an order to a host as people know it.
type hostGiven struct {
	action HostAction
	group  string // of the host then
	to     Semver // of an update: where the host goes
	at     time.Time
	until  time.Time
}

// hostOrders are the orders to hosts, and what people know of them: which orders hold follows from what has happened since, not
// from the times that the server keeps.
type hostOrders struct {
	list    Overrides
	given   map[HostID]hostGiven
	started time.Time            // of the rollout
	stopped map[string]time.Time // when a group was halted or rolled back last, in this rollout
}

func (o *hostOrders) clone() hostOrders {
	return hostOrders{o.list, maps.Clone(o.given), o.started, maps.Clone(o.stopped)}
}

// follow keeps what ends orders: a new rollout, and a group that is halted or rolled back.
func (o *hostOrders) follow(before *Rollout, result Result, now time.Time) {
	if after := result.Rollout; after != nil && (before == nil || !before.Status.StartTime.Equal(after.Status.StartTime)) {
		o.started, o.stopped = now, make(map[string]time.Time)
	}
	for _, s := range result.Steps {
		if s.Halted || s.To == RolledBack {
			o.stopped[s.Group] = now
		}
	}
}

// hold is whether an order holds.
type hold int

const (
	over hold = iota // or there is none
	holds
	either // it was given in the instant in which something ended it
)

// holds reports whether the order of a host holds at a moment.
func (h *history) holds(host *Host) (g hostGiven, is hold) {
	g, ok := h.orders.given[host.ID]
	switch {
	case !ok || !g.until.IsZero() && !h.now.Before(g.until):
		return g, over
	case g.action == HoldHost:
		return g, holds
	case h.rollout == nil || !h.rollout.Of(h.version) || g.at.Before(h.orders.started):
		return g, over
	}
	ended := h.orders.started
	for _, name := range []string{g.group, host.Group} {
		if groups := h.rollout.Status.Groups; h.rollout.group(name) < 0 && len(groups) > 0 {
			name = groups[len(groups)-1].Name
		}
		ended = later(ended, h.orders.stopped[name])
	}
	switch {
	case g.at.Before(ended):
		return g, over
	case g.at.Equal(ended):
		return g, either
	}
	return g, holds
}

// keptApart reports whether an order keeps a host out of all counts.
func (h *history) keptApart(host *Host, target Semver) bool {
	g, is := h.holds(host)
	return is != over && (g.action == HoldHost || g.to != target)
}

// ordered judges the answer to a host by its order, and by the answer that it would get without any order.
func (h *history) ordered(host *Host, a, without Answer, mode Mode) string {
	g, is := h.holds(host)
	if _, ok := h.orders.given[host.ID]; ok && is == over && g.action == UpdateHost {
		h.covered["an order to a host ended by itself"] = true
	}
	switch {
	case is == over || g.action == UpdateHost && mode != Enabled:
		if a != without {
			return fmt.Sprintf("host %s has no order that holds, and is told %s %v; without orders %s %v", host.Hostname, a.Version, a.AutoUpdate,
				without.Version, without.AutoUpdate)
		}
		return ""
	case is == either && a == without:
		return ""
	}
	h.covered["an order to a host held"] = true
	want, update := g.to, true
	if g.action == HoldHost {
		want, update = without.Version, false
	}
	if a.Version != want || a.AutoUpdate != update {
		return fmt.Sprintf("host %s is told %s %v; its order is %s %s", host.Hostname, a.Version, a.AutoUpdate, g.action, want)
	}
	return ""
}

// waitsForHeld reports that a group starts with a canary that does not update: the group would wait for it.
func (h *history) waitsForHeld(a, b *GroupStatus) string {
	if a.State != Canarying || a.StartTime.Equal(b.StartTime) {
		return ""
	}
	for _, canary := range a.Canaries {
		host := h.fleet.byID[ParseHostID(canary.HostID)]
		if g, is := h.holds(host); is == holds && g.action == HoldHost {
			return fmt.Sprintf("host %s, which an order holds, is a canary of %s", host.Hostname, a.Name)
		}
	}
	return ""
}

// hostOrder has a person order one host, at times for a while.
func (h *history) hostOrder() string {
	if len(h.fleet.hosts) == 0 {
		return ""
	}
	host := h.fleet.hosts[h.IntN(len(h.fleet.hosts))]
	o := HostOrder{Host: host, Action: []HostAction{UpdateHost, UpdateHost, HoldHost, ReleaseHost}[h.IntN(4)],
		Known: func(id HostID) *Host { return h.fleet.byID[id] }}
	if o.Action == UpdateHost {
		o.To = []string{"", "", BackToStart, "17.1.9"}[h.IntN(4)]
	}
	if o.Action != ReleaseHost && h.IntN(2) == 0 {
		o.Until = h.now.Add(time.Duration(1+h.IntN(300)) * time.Minute)
	}
	list, err := o.Apply(h.config, h.version, h.rollout, h.orders.list, h.now)
	if err != nil {
		h.covered["an order to a host was refused"] = true
		return ""
	}
	h.log("order to %s of %s: %s %s until %s", host.Hostname, host.Group, o.Action, o.To, o.Until.Format("Mon 15:04:05"))
	if o.Action == UpdateHost && (host.Pinned || host.Disabled || EffectiveMode(h.config, h.version) != Enabled) {
		return fmt.Sprintf("host %s, which its owner holds, or whose fleet does not update, is ordered to update", host.Hostname)
	}
	if h.orders.given == nil {
		h.orders.given = make(map[HostID]hostGiven)
	}
	h.orders.list = list
	maps.DeleteFunc(h.orders.given, func(id HostID, _ hostGiven) bool { return h.fleet.byID[id] == nil }) // of hosts that are gone
	if o.Action == ReleaseHost {
		delete(h.orders.given, host.ID)
		return ""
	}
	g := hostGiven{action: o.Action, group: host.Group, at: h.now, until: o.Until, to: Semver(o.To)}
	switch {
	case o.Action == HoldHost:
	case o.To == BackToStart:
		g.to = h.rollout.Spec.StartVersion
	case o.To == "":
		g.to = h.rollout.Spec.TargetVersion
	}
	h.orders.given[host.ID] = g
	return ""
}
