package server

import (
	"iter"
	"slices"
	"sync"
	"time"

	"teleport-update/find/rollout"
)

// Inventory is what the engine counts by.
type Inventory interface {
	// Counts returns what hosts report, for a rollout and those of its plans that
	// can be read.
	Counts(r *rollout.Rollout, plans map[string]*rollout.Index, now time.Time) rollout.Counts
}

// Fleet is an Inventory in memory: the hosts that have reported to this server since
// it started. Its methods may be called from several goroutines at once.
type Fleet struct {
	started time.Time
	jitter  time.Duration

	mu    sync.RWMutex
	hosts []*rollout.Host
	byID  map[rollout.HostID]*rollout.Host
}

// NewFleet returns one without hosts, of a server that started at a moment and tells
// hosts that jitter where their group has none of its own.
func NewFleet(started time.Time, jitter time.Duration) *Fleet {
	return &Fleet{started: started, jitter: jitter, byID: make(map[rollout.HostID]*rollout.Host)}
}

// Take notes the report of a host, which has passed its Check.
func (f *Fleet) Take(b rollout.Heartbeat, now time.Time) {
	id := rollout.ParseHostID(b.HostID)
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.byID[id]
	if h == nil {
		h = new(rollout.Host)
		f.byID[id] = h
		f.hosts = append(f.hosts, h)
	}
	h.Take(b, now)
}

// CompleteAt is when every host has had time to report since the start.
func (f *Fleet) CompleteAt() time.Time { return f.started.Add(rollout.PresentFor) }

// Counts implements Inventory.
func (f *Fleet) Counts(r *rollout.Rollout, plans map[string]*rollout.Index, now time.Time) rollout.Counts {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n := rollout.Count(r, (*fleetView)(f), plans, rollout.CountOptions{Complete: !now.Before(f.CompleteAt()), Jitter: f.jitter, Now: now})
	for i := range n.Groups {
		eligible := n.Groups[i].Eligible
		n.Groups[i].Eligible = func() []rollout.Candidate {
			f.mu.RLock()
			defer f.mu.RUnlock()
			return eligible()
		}
	}
	return n
}

// fleetView is a Fleet while its lock is held.
type fleetView Fleet

// All implements rollout.Fleet.
func (f *fleetView) All() iter.Seq[*rollout.Host] { return slices.Values(f.hosts) }

// Host implements rollout.Fleet.
func (f *fleetView) Host(id rollout.HostID) *rollout.Host { return f.byID[id] }
