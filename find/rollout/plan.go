package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// Plan is the order in which the hosts of a group with max_in_flight are told to
// update (RFD 0169 §Window Capture). It is captured once, when the group becomes
// active, and never changes: how far it has come is one number in the rollout,
// last_active_host_index, that grows.
type Plan struct {
	Group     string
	StartTime time.Time
	Version   Semver
	Schedule  Schedule
	Hosts     []string // UUIDs, in their order
	ids       []HostID // the same; nil for a plan that was read
}

// Index returns the index of the plan's hosts.
func (p *Plan) Index() (*Index, error) {
	if p.ids != nil {
		return indexOf(p.ids, p.Hosts)
	}
	return NewIndex(p.Hosts)
}

// newPlan captures a plan: hosts that are present and not on the target.
func newPlan(r *Rollout, g *GroupStatus, hosts []Candidate, start time.Time) *Plan {
	p := &Plan{Group: g.Name, StartTime: start, Version: r.Spec.TargetVersion, Schedule: r.Spec.Schedule}
	p.Hosts, p.ids = make([]string, 0, len(hosts)), make([]HostID, 0, len(hosts))
	for _, d := range draw(hosts, drawKey(r, g.Name, start)) {
		p.Hosts, p.ids = append(p.Hosts, hosts[d.place].ID), append(p.ids, d.id)
	}
	return p
}

// drawKey differs from plan to plan, and whoever has the rollout can compute it: an
// order that is random for hosts and yet can be checked.
func drawKey(r *Rollout, group string, start time.Time) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "teleport-find draw\x00%s\x00%s\x00%s\x00%s\x00%s",
		r.Spec.TargetVersion, r.Spec.Schedule, r.Status.StartTime.Format(time.RFC3339), group, start.Format(time.RFC3339)))
}

// drawn is a host in a drawing: the place in the list it was drawn from.
type drawn struct {
	hash  uint64
	place int
	id    HostID
}

// draw returns the hosts in the order of a keyed hash of their ids.
func draw(hosts []Candidate, key [32]byte) []drawn {
	list := make([]drawn, len(hosts))
	var text [48]byte
	copy(text[:], key[:])
	for i := range hosts {
		id := ParseHostID(hosts[i].ID)
		copy(text[32:], id[:])
		sum := sha256.Sum256(text[:])
		list[i] = drawn{binary.BigEndian.Uint64(sum[:]), i, id}
	}
	slices.SortFunc(list, func(a, b drawn) int {
		if a.hash != b.hash {
			return cmp.Compare(a.hash, b.hash)
		}
		return cmp.Compare(hosts[a.place].ID, hosts[b.place].ID)
	})
	return list
}

// drawCanaries picks so many hosts, or all where there are not as many.
func drawCanaries(r *Rollout, g *GroupStatus, hosts []Candidate, start time.Time) []Canary {
	var picked []Canary
	for _, d := range draw(hosts, drawKey(r, g.Name, start)) {
		if len(picked) == g.CanaryCount {
			break
		}
		h := hosts[d.place]
		if h.Unhealthy {
			continue // it could not show anything
		}
		picked = append(picked, Canary{UpdaterID: h.UpdaterID, HostID: h.ID, Hostname: excerpt(h.Hostname)})
	}
	return picked
}
