package answers

import (
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
	halted map[string]heldHalt
	target rollout.Semver
	begun  time.Time
	mode   *heldMode
	// changes grows with each change of it.
	changes int
	unmade  error // why the answers are without it; nil if they are not
}

// put puts what is held over resources that were read.
func (b *brake) put(n *Resources) (changes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n.Rollout, n.Config = b.over(n.Rollout), b.mode.over(n.Config)
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
	switch names := strings.Join(slices.Sorted(maps.Keys(s.brake.halted)), ", "); {
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
