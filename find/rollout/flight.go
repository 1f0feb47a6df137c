package rollout

// Flight is how far a plan has come: who is updating, and who may be next.
type Flight struct {
	Hosts int // of the plan
	Limit int // of hosts in flight: max_in_flight
	// Place is the largest place of the plan that may be told to update now: the
	// one with fewer than Limit hosts before it that hold a place in flight.
	Place int
	// InFlight are those that were admitted and have not finished. Silent are
	// those among them that have not said that they were told.
	InFlight, Silent int
	// Unhealthy are present hosts of the group whose agent is down and that are
	// not in flight. They count against Limit: the group is short of them already.
	Unhealthy int
}

// exhausted reports whether the plan, of which hosts up to a place are admitted, has
// nobody left to wait for.
func (f *Flight) exhausted(admitted int) bool {
	return f != nil && admitted >= f.Hosts-1 && f.InFlight == 0
}

// flight judges the hosts of a plan in its order, those that are admitted and then
// those that could be.
func (c *counter) flight(g *GroupStatus, n *GroupCounts, plan *Index, t trial) *Flight {
	f := &Flight{Hosts: plan.Len(), Unhealthy: n.Unhealthy, Place: g.Plan.LastActiveHostIndex}
	if g.ConfigMaxInFlight != nil {
		f.Limit = g.ConfigMaxInFlight.Of(f.Hosts)
	}
	down := func(h *Host) bool { return h != nil && h.Unhealthy && h.omitted(c.now) == "" }
	admitted := plan.ids[:min(f.Place+1, f.Hosts)]
	at := -1
	for h := range c.fleet.Hosts(admitted) {
		at++
		state := silent
		if h != nil {
			state = h.progress(t)
		}
		if state == silent && t.complete && (h == nil || !h.present(c.now)) {
			state = timedOut
		}
		if h == nil {
			h = &Host{ID: admitted[at]}
		}
		n.judge(h, state, h.hasFailed(t))
		if state.finished() {
			continue
		}
		f.InFlight++
		if state == silent {
			f.Silent++
		}
		if down(h) {
			f.Unhealthy--
		}
	}
	holding, unhealthy := f.InFlight, f.Unhealthy
	for f.Place+1 < f.Hosts && holding+unhealthy < f.Limit {
		f.Place++
		h := c.fleet.Host(plan.ID(f.Place))
		if h != nil {
			if state := h.progress(t); state == updated || state == withdrawn {
				continue
			}
		}
		holding++
		if down(h) {
			unhealthy--
		}
	}
	return f
}
