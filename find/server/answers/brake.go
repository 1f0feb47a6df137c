package answers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"teleport-update/find/rollout"
)

// brake is what stops updates on this server while the store does not say so yet: the store could not be written. It is
// lost with the process; until then it is in every answer, and it is written as soon as that is possible.
type brake struct {
	mu sync.Mutex
	// halted are groups of the rollout of a target and a start.
	halted map[string]rollout.Halted
	target rollout.Semver
	begun  time.Time
	mode   *heldMode
	// changes grows with each change of it.
	changes int
}

// put puts what is held over resources that were read.
func (b *brake) put(n *Resources) (changes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n.Rollout, n.Config = b.over(n.Rollout), b.stopped(n.Config)
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
	if m := s.brake.mode; m != nil {
		held = append(held, fmt.Sprintf("the mode %s is in force on this server only, not yet written: %v", m.mode, m.unwritten))
	}
	if names := slices.Sorted(maps.Keys(s.brake.halted)); len(names) > 0 {
		held = append(held, "halted on this server only, not yet written: "+strings.Join(names, ", "))
	}
	return held
}

// remake makes the answers again, of the resources that were read last.
func (s *Stored) remake(ctx context.Context) {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	before := s.current.Load()
	parsed, err := ParseResources(before.items)
	if err != nil {
		return // they were read before
	}
	next := &snapshot{Resources: parsed}
	next.braked = s.brake.put(&next.Resources)
	if err := s.decide(ctx, next); err != nil {
		s.opts.Log.Error("what is in force on this server only is not in its answers", "error", err)
		return
	}
	s.current.Store(next)
	s.report(before, next)
}
