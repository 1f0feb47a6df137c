package rules

import (
	"slices"
	"time"

	"teleport-update/find/rollout"
)

// hostOrder is a person's order to one host: to update, also back, or to stay.
type hostOrder struct {
	action string // update or hold
	group  string // of the host then
	to     string
	at     time.Time
	until  time.Time // zero for no end
}

// groupOf is the group whose answer a host gets that names one; nil for none.
func (m *model) groupOf(name string) *group {
	if m.rollout == nil || len(m.rollout.groups) == 0 {
		return nil
	}
	i := slices.IndexFunc(m.rollout.groups, func(g *group) bool { return g.want.name == name })
	if i < 0 {
		i = len(m.rollout.groups) - 1
	}
	return m.rollout.groups[i]
}

// orderThatHolds is the order of a host, or nil. An order to update ends with the rollout, and if the group of the host, that of
// the order or that of now, is halted or rolled back after it.
func (m *model) orderThatHolds(host, groupName string) *hostOrder {
	o := m.orders[host]
	switch {
	case o == nil || !o.until.IsZero() && !m.now.Before(o.until):
		return nil
	case o.action == "hold":
		return o
	case o.at.Before(m.rollout.since):
		return nil
	}
	for _, name := range []string{o.group, groupName} {
		if g := m.groupOf(name); g != nil && o.at.Before(g.stopped) {
			return nil
		}
	}
	return o
}

// keptApart reports whether a host is in no count: it is held, or sent to another version than the target.
func (m *model) keptApart(h *knownHost) bool {
	o := m.orderThatHolds(h.id, h.last.group)
	return o != nil && (o.action == "hold" || o.to != m.rollout.target)
}

// orderHost lets a person order one host now and then.
func (h *history) orderHost() {
	if h.more.IntN(25) != 0 || len(h.machines) == 0 || h.rollout == nil {
		return
	}
	h.now = h.now.Add(time.Second) // as in command
	h.model.now = h.now
	m := h.machines[h.more.IntN(len(h.machines))]
	known := h.fleet[rollout.ParseHostID(m.id)]
	if known == nil {
		return
	}
	o := rollout.HostOrder{Host: known, Action: []rollout.HostAction{rollout.UpdateHost, rollout.HoldHost, rollout.ReleaseHost}[h.more.IntN(3)], Known: h.fleet.Host}
	if o.Action == rollout.UpdateHost {
		o.To = []string{"", "", "start", "1.0.0"}[h.more.IntN(4)]
	}
	if o.Action != rollout.ReleaseHost && h.more.IntN(2) == 0 {
		o.Until = h.now.Add(time.Duration(1+h.more.IntN(600)) * time.Minute)
	}
	list, err := o.Apply(h.config, h.version, h.rollout, h.overrides, h.now)
	if err != nil {
		h.logf("refused: %s to %s: %v", o.Action, m.id[:4], err)
		return
	}
	h.ordered[o.Action]++
	h.logf("order to %s: %s %s until %s", m.id[:4], o.Action, o.To, o.Until.Format("Mon 15:04"))
	h.overrides = list
	delete(h.model.orders, m.id)
	for id := range h.model.orders { // orders that are over are dropped with the next order
		if h.model.orderThatHolds(id, h.model.hosts[id].last.group) == nil {
			delete(h.model.orders, id)
		}
	}
	switch {
	case o.Action == rollout.ReleaseHost:
		return
	case o.To == "":
		o.To = h.model.rollout.target
	case o.To == "start":
		o.To = h.model.rollout.start
	}
	h.model.orders[m.id] = &hostOrder{action: string(o.Action), group: known.Group, to: o.To, at: h.now, until: o.Until}
}
