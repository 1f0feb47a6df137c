package rules

import (
	"fmt"
	"time"

	"teleport-update/find/rollout"
)

// happen lets people and machines change.
func (h *history) happen() {
	for _, m := range h.machines {
		if h.rng.IntN(60) != 0 {
			continue
		}
		switch h.rng.IntN(7) {
		case 0:
			m.bad = !m.bad
		case 1:
			m.away = !m.away
		case 2:
			m.pinned = !m.pinned
		case 3:
			m.disabled = !m.disabled
		case 4:
			m.unhealthy = !m.unhealthy
		case 5:
			m.stuck = !m.stuck
		case 6:
			m.group = h.sheet.groups[h.rng.IntN(len(h.sheet.groups))].name
		}
		h.logf("%s bad=%v away=%v stuck=%v group=%s", m.id[:4], m.bad, m.away, m.stuck, m.group)
		h.logf("%s pinned=%v disabled=%v unhealthy=%v", m.id[:4], m.pinned, m.disabled, m.unhealthy)
	}
	switch h.rng.IntN(120) {
	case 0:
		h.mode = []string{"enabled", "suspended", "disabled"}[h.rng.IntN(3)]
		h.write(h.sheet.config(h.mode))
		h.logf("mode %s", h.mode)
	case 1:
		if h.mode != "enabled" {
			h.mode = "enabled"
			h.write(h.sheet.config(h.mode))
		}
	case 2:
		if h.rng.IntN(3) == 0 {
			h.apply(h.schedule())
			h.logf("version %s %s", h.version.Spec.Agents.TargetVersion, h.version.Spec.Agents.Schedule)
		}
	}
}

// poll lets each machine that is there ask, act and report.
func (h *history) poll() {
	snapshot := h.snapshot()
	for _, m := range h.machines {
		if m.away {
			continue
		}
		polls := h.now.Sub(h.polled[m.id]) >= 10*time.Minute
		before := m.outcome
		m.live(h.now, h.rng, polls, func() findAnswer {
			a := snapshot.Find(rollout.Query{Group: m.group, Host: m.id}, h.now)
			return findAnswer{string(a.Version), a.AutoUpdate, second(a.RetryFailed)}
		})
		if !polls && before == m.outcome {
			continue
		}
		if polls {
			h.polled[m.id] = h.now
		}
		h.hear(m)
	}
}

func (h *history) hear(m *machine) {
	beat, said := m.report()
	id := rollout.ParseHostID(m.id)
	known := h.fleet[id]
	if known == nil {
		known = &rollout.Host{ID: id}
		h.fleet[id] = known
	}
	known.Take(beat, h.now)
	r := h.model.hosts[m.id]
	if r == nil {
		r = &knownHost{id: m.id}
		h.model.hosts[m.id] = r
	}
	r.hear(said, h.now)
}

func (h *history) schedule() string {
	return []string{"regular", "critical", "immediate"}[h.rng.IntN(3)]
}

// command lets a person order something now and then. What the engine refuses is not
// carried out by the model either.
func (h *history) command() {
	if !h.complete || h.rng.IntN(40) != 0 || len(h.rollout.Status.Groups) == 0 || len(h.model.rollout.groups) == 0 {
		return
	}
	// Whoever orders something has seen what hosts reported: not in the same second.
	h.now = h.now.Add(time.Second)
	h.model.now = h.now
	at := h.rng.IntN(len(h.rollout.Status.Groups))
	o := rollout.Order{
		Verb:   []rollout.Verb{rollout.StartUpdate, rollout.MarkDone, rollout.Rollback, rollout.Retry, rollout.Reset}[h.rng.IntN(5)],
		Groups: []string{h.rollout.Status.Groups[at].Name}, Force: h.rng.IntN(2) == 0, Who: "somebody", Why: "a test",
	}
	if o.Verb == rollout.Reset {
		o.Groups = nil
	}
	if o.Verb != rollout.StartUpdate {
		o.Force = false
	}
	if o.Verb == rollout.Rollback {
		h.somewhere(&o)
	}
	h.model.complete = h.complete
	h.model.setPreviousVersion() // an order counts, too
	res, err := o.Apply(h.config, h.version, h.rollout, h.counts(), h.now)
	if err != nil {
		h.logf("refused: %s %s: %v", o.Verb, o.Groups, err)
		return
	}
	h.take(res)
	h.logf("order: %s %v force=%v to=%s", o.Verb, o.Groups, o.Force, o.To)
	if o.Verb == rollout.Reset {
		h.model.reset()
		return
	}
	if len(o.Groups) == 0 {
		h.model.rollBackAll(o.To)
		return
	}
	members := membership(h.model.hosts, h.model.rollout.groups, h.model.rollout.hold)
	h.model.order(string(o.Verb), o.To, h.model.rollout.groups[at], members[at], o.Force, h)
}

// somewhere has a rollback go where people have it go, at times without naming a group.
func (h *history) somewhere(o *rollout.Order) {
	o.To = []string{"", "start", "previous", fmt.Sprintf("1.%d.0", h.more.IntN(h.round+2))}[h.more.IntN(4)]
	if h.more.IntN(4) == 0 {
		o.Groups = nil
	}
}
