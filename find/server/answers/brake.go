package answers

import (
	"fmt"
	"strings"
	"sync"

	"teleport-update/find/rollout"
)

// brake is what stops updates on this server while the store does not say so yet: the store could not be written. It is
// lost with the process; until then it is in every answer, and it is written as soon as that is possible.
type brake struct {
	mu    sync.Mutex
	halts heldHalts
	mode  *heldMode
	// changes grows with each change of it.
	changes int
	unmade  error // why the answers are without it; nil if they are not
}

// HoldHalts has hosts answered as if the halted groups of a rollout were so in the store, which could not be written.
func (s *Stored) HoldHalts(r *rollout.Rollout) {
	if more := s.brake.hold(r); len(more) > 0 {
		s.opts.Log.Error("groups are halted on this server only: that could not be written yet", "groups", more)
		s.remake()
	}
}

// KeepHalts has hosts answered by the halts of a rollout that the store has acknowledged, until it is read again: it may have
// lost them by then.
func (s *Stored) KeepHalts(r *rollout.Rollout) {
	if s.brake.holdWritten(r) {
		s.remake()
	}
}

func (b *brake) holdWritten(r *rollout.Rollout) (more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, group := range b.halts.hold(r) {
		held := b.halts.of[group]
		held.written = true
		b.halts.of[group] = held
		more = true
	}
	if more {
		b.changes++
	}
	return more
}

// hold keeps the halts of a rollout, and returns the groups of those that were not held before.
func (b *brake) hold(r *rollout.Rollout) (more []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if more = b.halts.hold(r); len(more) > 0 {
		b.changes++
	}
	return more
}

// WithHalts returns a rollout with the halts that are held of it; the rollout itself if there are none.
func (s *Stored) WithHalts(r *rollout.Rollout) *rollout.Rollout {
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	return s.brake.halts.over(r)
}

const haltsWritten = "the halts that were in force on this server only are written"

// LetHaltsGo is called when a rollout was written that was computed from another one, seen: its halts are in the store, or
// people have lifted them. A halt that came since stays.
func (s *Stored) LetHaltsGo(seen *rollout.Rollout) {
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	if !s.brake.halts.letGo(seen) {
		return
	}
	s.brake.changes++
	if len(s.brake.halts.of) == 0 {
		s.opts.Log.Info(haltsWritten)
	}
}

// settleHalts lets go of the halts that a rollout of the store makes needless.
func (s *Stored) settleHalts(r *rollout.Rollout) {
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	written, over := s.brake.halts.settle(r)
	if len(written)+len(over) > 0 {
		s.brake.changes++
	}
	if len(over) > 0 {
		s.opts.Log.Info("groups went on after they were halted on this server only: the halts are dropped", "groups", over)
	} else if len(written) > 0 && len(s.brake.halts.of) == 0 {
		s.opts.Log.Info(haltsWritten)
	}
}

// put puts what is held over resources that were read.
func (b *brake) put(n *Resources) (changes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n.Rollout, n.Config = b.halts.over(n.Rollout), b.mode.over(n.Config)
	return b.changes
}

func (s *Stored) braked() int {
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	return s.brake.changes
}

// Held says what is in force on this server only, and why; empty if all is written.
func (s *Stored) Held() (held []string) {
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	where := "in force on this server only"
	if s.brake.unmade != nil {
		where = fmt.Sprintf("not in force (%v)", s.brake.unmade)
	}
	if m := s.brake.mode; m != nil {
		held = append(held, fmt.Sprintf("the mode %s is %s, not yet written: %v", m.mode, where, m.unwritten))
	}
	switch names := strings.Join(s.brake.halts.groups(), ", "); {
	case names == "":
	case s.brake.unmade != nil:
		held = append(held, fmt.Sprintf("the halts of %s are %s, not yet written", names, where))
	default:
		held = append(held, "halted on this server only, not yet written: "+names)
	}
	return held
}

// remake makes the answers again, of the resources and the plans that were read last: it needs no store.
func (s *Stored) remake() (err error) {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	defer func() {
		if s.setUnmade(err); err != nil {
			s.opts.Log.Error("what is in force on this server only is not in its answers", "error", err)
		}
	}()
	before := s.current.Load()
	parsed, err := ParseResources(before.items)
	if err != nil {
		return err // they were read before
	}
	next := &snapshot{Resources: parsed}
	next.braked = s.brake.put(&next.Resources)
	if err := s.decideBy(next, before.plans, before.broken); err != nil {
		return err
	}
	s.current.Store(next)
	s.report(before, next)
	return nil
}

func (s *Stored) setUnmade(err error) {
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	s.brake.unmade = err
}
