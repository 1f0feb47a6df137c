package answers

import (
	"maps"
	"slices"
	"strings"
	"time"

	"teleport-update/find/rollout"
)

// heldHalt is the halt of a group, and the trial that it is of.
type heldHalt struct {
	rollout.Halted
	begun, retried time.Time // StartTime and RetryTime of the group; zero of one that has not started
}

func heldHaltOf(g *rollout.GroupStatus) heldHalt {
	return heldHalt{*g.Halted, g.StartTime, g.RetryTime}
}

// isOver reports whether the group of the store has left the trial that was halted, or people have moved it since: the halt
// would stop what it knows nothing of. Canaries that went on by themselves have left nothing.
func (h heldHalt) isOver(g *rollout.GroupStatus) bool {
	switch {
	case g.State == rollout.Done || g.State == rollout.RolledBack:
		return true
	case !h.begun.IsZero() && g.StartTime.After(h.begun):
		return true
	case g.RetryTime.After(h.retried):
		return true
	}
	return isByHand(g.LastUpdateReason) && g.LastUpdateTime.After(h.Since)
}

func isByHand(r rollout.Reason) bool { return strings.HasPrefix(string(r), "manual_") }

// HoldHalts has hosts answered as if the halted groups of a rollout were so in the store, which could not be written.
func (s *Stored) HoldHalts(r *rollout.Rollout) {
	if more := s.brake.hold(r); len(more) > 0 {
		s.opts.Log.Error("groups are halted on this server only: that could not be written yet", "groups", more)
		s.remake()
	}
}

// hold keeps the halts of a rollout, and returns the groups of those that were not held before.
func (b *brake) hold(r *rollout.Rollout) (more []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isOf(r) {
		b.halted = nil
	}
	b.target, b.begun = r.Spec.TargetVersion, r.Status.StartTime
	for i := range r.Status.Groups {
		g := &r.Status.Groups[i]
		held, is := b.halted[g.Name]
		if g.Halted == nil || is && !held.isOver(g) {
			continue
		}
		if b.halted == nil {
			b.halted = make(map[string]heldHalt)
		}
		b.halted[g.Name] = heldHaltOf(g)
		more = append(more, g.Name)
	}
	if len(more) > 0 {
		b.changes++
	}
	return more
}

// isOf reports whether the halts that are held are of a rollout, which may be nil.
func (b *brake) isOf(r *rollout.Rollout) bool {
	return r != nil && b.target == r.Spec.TargetVersion && b.begun.Equal(r.Status.StartTime)
}

// WithHalts returns a rollout with the halts that are held of it; the rollout itself if there are none.
func (s *Stored) WithHalts(r *rollout.Rollout) *rollout.Rollout {
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	return s.brake.over(r)
}

func (b *brake) over(r *rollout.Rollout) *rollout.Rollout {
	if len(b.halted) == 0 || !b.isOf(r) {
		return r
	}
	next := r
	for i := range r.Status.Groups {
		g := &r.Status.Groups[i]
		held, is := b.halted[g.Name]
		if !is || g.Halted != nil || held.isOver(g) {
			continue
		}
		if next == r {
			next = r.Clone()
		}
		g = &next.Status.Groups[i]
		g.Halted, g.LastUpdateTime, g.LastUpdateReason = &held.Halted, held.Since, held.Reason
	}
	return next
}

// LetHaltsGo is called when a rollout was written that was computed from another one, seen: its halts are in the store, or
// people have lifted them. A halt that came since stays.
func (s *Stored) LetHaltsGo(seen *rollout.Rollout) {
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	if !s.brake.isOf(seen) {
		return
	}
	before := len(s.brake.halted)
	for i := range seen.Status.Groups {
		g := &seen.Status.Groups[i]
		if held, is := s.brake.halted[g.Name]; is && g.Halted != nil && *g.Halted == held.Halted {
			delete(s.brake.halted, g.Name)
		}
	}
	if len(s.brake.halted) == before {
		return
	}
	s.brake.changes++
	if len(s.brake.halted) == 0 {
		s.opts.Log.Info(haltsWritten)
	}
}

const haltsWritten = "the halts that were in force on this server only are written"

// letHaltsGo lets go of the halts that a rollout of the store has, whoever wrote them, and of those that are of a trial or a
// rollout that is over: they would come back when a person lets the group go on.
func (s *Stored) letHaltsGo(r *rollout.Rollout) {
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	if len(s.brake.halted) == 0 || r == nil {
		return
	}
	written, over := s.brake.settled(r)
	if len(written)+len(over) == 0 {
		return
	}
	for _, name := range append(written, over...) {
		delete(s.brake.halted, name)
	}
	s.brake.changes++
	if len(over) > 0 {
		s.opts.Log.Info("groups went on after they were halted on this server only: the halts are dropped", "groups", over)
	} else if len(s.brake.halted) == 0 {
		s.opts.Log.Info(haltsWritten)
	}
}

// settled are the groups with a halt that need not be held any more: it is in the rollout of the store, or what it stopped
// is over.
func (b *brake) settled(r *rollout.Rollout) (written, over []string) {
	if !b.isOf(r) {
		return nil, slices.Sorted(maps.Keys(b.halted))
	}
	for i := range r.Status.Groups {
		g := &r.Status.Groups[i]
		if held, is := b.halted[g.Name]; !is {
			continue
		} else if g.Halted != nil {
			written = append(written, g.Name)
		} else if held.isOver(g) {
			over = append(over, g.Name)
		}
	}
	return written, over
}
