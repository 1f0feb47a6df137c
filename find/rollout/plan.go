package rollout

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// Plan is the order in which the hosts of a group with max_in_flight update (RFD 0169
// §Window Capture). It is captured once, when the group becomes active, and never
// changes: only the rollout's last_active_host_index grows with its progress.
type Plan struct {
	Group     string
	StartTime time.Time
	Version   Semver
	Schedule  Schedule
	Hosts     []HostID // in their order
}

// newPlan captures a plan: hosts that are present and not on the target.
func newPlan(r *Rollout, g *GroupStatus, hosts []HostID, start time.Time) *Plan {
	p := &Plan{Group: g.Name, StartTime: start, Version: r.Spec.TargetVersion, Schedule: r.Spec.Schedule, Hosts: make([]HostID, 0, len(hosts))}
	for _, d := range draw(hosts, drawKey(r, g.Name, start)) {
		p.Hosts = append(p.Hosts, d.id)
	}
	return p
}

// drawKey differs from plan to plan, and follows from the rollout alone: hosts cannot
// foresee the order, and people can check it.
func drawKey(r *Rollout, group string, start time.Time) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "teleport-find draw\x00%s\x00%s\x00%s\x00%s\x00%s",
		r.Spec.TargetVersion, r.Spec.Schedule, r.Status.StartTime.Format(time.RFC3339), group, start.Format(time.RFC3339)))
}

// drawn is a host in a drawing.
type drawn struct {
	hash uint64
	id   HostID
}

// draw returns the hosts in the order of a keyed hash of their ids.
func draw(hosts []HostID, key [32]byte) []drawn {
	list := make([]drawn, len(hosts))
	var text [48]byte
	copy(text[:], key[:])
	for i, id := range hosts {
		copy(text[32:], id[:])
		sum := sha256.Sum256(text[:])
		list[i] = drawn{binary.BigEndian.Uint64(sum[:]), id}
	}
	slices.SortFunc(list, func(a, b drawn) int {
		if a.hash != b.hash {
			return cmp.Compare(a.hash, b.hash)
		}
		return bytes.Compare(a.id[:], b.id[:])
	})
	return list
}

// drawCanaries picks so many hosts, or all if there are fewer.
func drawCanaries(r *Rollout, g *GroupStatus, hosts []HostID, look func(HostID) (Host, bool), start time.Time) []Canary {
	var picked []Canary
	for _, d := range draw(hosts, drawKey(r, g.Name, start)) {
		if len(picked) == g.ConfigCanaryCount {
			break
		}
		h, known := look(d.id)
		if !known || h.Unhealthy || h.backsOff(r.Spec.TargetVersion, start) {
			continue // it could not show anything
		}
		canary := Canary{HostID: h.ID.String(), Hostname: excerpt(h.Hostname)}
		if h.UpdaterID != (HostID{}) {
			canary.UpdaterID = h.UpdaterID.String()
		}
		picked = append(picked, canary)
	}
	return picked
}

// Index holds a plan in memory: the hosts in their order, and their places. It is never
// changed once it is made.
type Index struct {
	ids    []HostID
	places map[HostID]uint32
}

// NewIndex returns the index of hosts in their order, and keeps them. The same host
// twice is an error: it would have two places.
func NewIndex(ids []HostID) (*Index, error) {
	x := &Index{ids: ids, places: make(map[HostID]uint32, len(ids))}
	for i, id := range ids {
		if _, there := x.places[id]; there {
			return nil, fmt.Errorf("host %s appears twice", id)
		}
		x.places[id] = uint32(i)
	}
	return x, nil
}

// Len returns how many hosts there are.
func (x *Index) Len() int { return len(x.ids) }

// ID returns the host at a place.
func (x *Index) ID(place int) HostID { return x.ids[place] }

// Place returns the place of a host, from 0. A nil index has no hosts.
func (x *Index) Place(id HostID) (int, bool) {
	if x == nil {
		return 0, false
	}
	place, there := x.places[id]
	return int(place), there
}

// Within reports whether a host has a place, and not after another one.
func (x *Index) Within(id HostID, last int) bool {
	place, there := x.Place(id)
	return there && place <= last
}

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
	switch {
	case h == nil:
		return silent
	case c.apart[h.ID] != "":
		return withdrawn
	}
	state := h.progress(c.trials[group])
	if state == updated || state == failed {
		return state
	}
	if at, _, _ := c.place(h); at != group {
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
		if c.apart[h.ID] == "" {
			n.judge(h, state, h.hasFailed(t))
		}
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
