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
