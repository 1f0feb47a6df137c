package answers

import "teleport-update/find/rollout"

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
	if b.target != r.Spec.TargetVersion || !b.begun.Equal(r.Status.StartTime) {
		b.halted = nil
	}
	b.target, b.begun = r.Spec.TargetVersion, r.Status.StartTime
	for i := range r.Status.Groups {
		g := &r.Status.Groups[i]
		if _, held := b.halted[g.Name]; g.Halted == nil || held {
			continue
		}
		if b.halted == nil {
			b.halted = make(map[string]rollout.Halted)
		}
		b.halted[g.Name] = *g.Halted
		more = append(more, g.Name)
	}
	if len(more) > 0 {
		b.changes++
	}
	return more
}

// WithHalts returns a rollout with the halts that are held of it; the rollout itself if there are none.
func (s *Stored) WithHalts(r *rollout.Rollout) *rollout.Rollout {
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	return s.brake.over(r)
}

func (b *brake) over(r *rollout.Rollout) *rollout.Rollout {
	if r == nil || len(b.halted) == 0 || b.target != r.Spec.TargetVersion || !b.begun.Equal(r.Status.StartTime) {
		return r
	}
	next := r
	for i := range r.Status.Groups {
		held, is := b.halted[r.Status.Groups[i].Name]
		if !is || r.Status.Groups[i].Halted != nil {
			continue
		}
		if next == r {
			next = r.Clone()
		}
		g := &next.Status.Groups[i]
		g.Halted, g.LastUpdateTime, g.LastUpdateReason = &held, held.Since, held.Reason
	}
	return next
}

// LetHaltsGo is called when the rollout was written that the halts are in.
func (s *Stored) LetHaltsGo() {
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	if len(s.brake.halted) > 0 {
		s.brake.halted = nil
		s.brake.changes++
		s.opts.Log.Info("the halts that were in force on this server only are written")
	}
}

// letGo lets go of the halts that a rollout of the store has, whoever wrote them, and reports whether none is held any more:
// they would come back when a person lets the group go on.
func (b *brake) letGo(r *rollout.Rollout) (all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r == nil || len(b.halted) == 0 || b.target != r.Spec.TargetVersion || !b.begun.Equal(r.Status.StartTime) {
		return false
	}
	for i := range r.Status.Groups {
		if g := &r.Status.Groups[i]; g.Halted != nil {
			delete(b.halted, g.Name)
		}
	}
	if len(b.halted) == 0 {
		b.changes++
		return true
	}
	return false
}
