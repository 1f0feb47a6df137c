package answers

import (
	"fmt"
	"strings"
	"sync"

	"teleport-update/find/rollout"
)

// brake holds halts and a mode that stop updates on this server because the store could not be written. It is lost with
// the process. Until then it is in every answer, and it is written as soon as that is possible.
type brake struct {
	mu    sync.Mutex
	halts heldHalts
	mode  *heldMode
	// changes grows with each change of the brake.
	changes int
	unmade  error // why the brake is not in the answers; nil if it is
}

// HoldHalts halts the groups of a rollout in this server's answers. The store could not be written with these halts.
func (s *Stored) HoldHalts(r *rollout.Rollout) {
	if more := s.brake.hold(r); len(more) > 0 {
		s.opts.Log.Error("groups are halted on this server only: that could not be written yet", "groups", more)
		s.remake()
	}
}

// KeepHalts keeps the halts of a rollout that the store has acknowledged in the answers until the store is read again: it may
// have lost them by then.
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

// hold keeps the halts of a rollout, and returns the groups with a new halt.
func (b *brake) hold(r *rollout.Rollout) (more []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if more = b.halts.hold(r); len(more) > 0 {
		b.changes++
	}
	return more
}

// WithHalts returns a rollout with its held halts; the rollout itself if there are none.
func (s *Stored) WithHalts(r *rollout.Rollout) *rollout.Rollout {
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	return s.brake.halts.over(r)
}

const haltsWritten = "the halts that were in force on this server only are written"

// LetHaltsGo is called when a rollout was written that was computed from another one, seen. The halts in seen are then in
// the store, or people have lifted them. A later halt stays.
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

// settleHalts drops the held halts that the store's rollout makes needless.
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

// put puts the brake over resources from the store.
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

// remake makes the answers again from the resources and plans that were read last. It needs no store.
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
