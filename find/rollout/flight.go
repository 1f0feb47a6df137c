package rollout

// Flight is how far a plan has come: who is updating, and who may be next.
type Flight struct {
	Hosts int // of the plan
	Limit int // of hosts in flight: max_in_flight
	// Admitted is the place up to which hosts had their turn when it was counted.
	Admitted int
	// Place is the largest place of the plan that may update now: fewer than Limit
	// hosts before it hold a place in flight.
	Place int
	// InFlight counts the admitted hosts that have not finished. Silent counts the
	// hosts in flight that have not said that they shall update.
	InFlight, Silent int
	// Unhealthy are present hosts of the group whose agent is down and that are
	// not in flight. They count against Limit: the group is short of them already.
	Unhealthy int
}

// progressOf judges a host of the plan or a canary of a group; nil is an unknown host.
// A host that names another group by now gets the answer of that group.
func (c *counter) progressOf(h *Host, group int) progress {
	if h == nil {
		return silent
	}
	state := h.progress(c.trials[group])
	if state == updated || state == failed {
		return state
	}
	if at, _, _ := c.place(h); at != group || c.held[h.ID] {
		return withdrawn
	}
	return state
}

// flight judges the hosts of a plan in its order: first the admitted ones, then the
// ones that could be next.
func (c *counter) flight(at int, plan *Index) *Flight {
	g, n, t := &c.r.Status.Groups[at], &c.counts.Groups[at], c.trials[at]
	f := &Flight{Hosts: plan.Len(), Unhealthy: n.Unhealthy, Place: g.Plan.LastActiveHostIndex, Admitted: g.Plan.LastActiveHostIndex}
	if g.ConfigMaxInFlight != nil {
		f.Limit = g.ConfigMaxInFlight.Of(f.Hosts)
	}
	down := func(h *Host) bool { return h != nil && h.Unhealthy && c.omitted(h) == "" }
	admitted := plan.ids[:min(f.Place+1, f.Hosts)]
	for _, id := range admitted {
		h := c.fleet.Host(id)
		state := c.progressOf(h, at)
		if state == silent && t.complete && (h == nil || !h.present(c.now)) {
			state = timedOut
		}
		if h == nil {
			h = &Host{ID: id}
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
		if state := c.progressOf(h, at); state == updated || state == withdrawn {
			continue
		}
		holding++
		if down(h) {
			unhealthy--
		}
	}
	return f
}
