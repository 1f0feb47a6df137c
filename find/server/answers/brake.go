package answers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
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

// heldMode is a mode that people want.
type heldMode struct {
	mode      rollout.Mode
	who, why  string
	unwritten error // why it is not written
}

// HoldHalts has hosts answered as if the halted groups of a rollout were so in the store, which could not be written.
func (s *Stored) HoldHalts(ctx context.Context, r *rollout.Rollout) {
	if more := s.brake.hold(r); len(more) > 0 {
		s.opts.Log.Error("groups are halted on this server only: that could not be written yet", "groups", more)
		s.remake(ctx)
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

// HoldMode has this server tell nobody to update, as people want it, though the store cannot be written: why. The mode is
// written as soon as that is possible, if none was applied since.
func (s *Stored) HoldMode(ctx context.Context, mode rollout.Mode, audit store.Audit) error {
	if mode != rollout.Suspended && mode != rollout.Disabled {
		return parts.Refuse(fmt.Errorf("%s is no mode that stops updates", mode))
	}
	held := &heldMode{mode: mode, who: cmp.Or(audit.Who, "unknown"), why: audit.Why}
	s.brake.mu.Lock()
	s.brake.mode = held
	s.brake.changes++
	s.brake.mu.Unlock()
	s.remake(ctx)
	if s.writeMode(ctx) {
		return nil
	}
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	s.opts.Log.Error("updates are stopped on this server only: the mode could not be written yet", "mode", mode, "by", audit.Who, "error",
		held.unwritten)
	return fmt.Errorf("the mode %s is in force on this server only, not yet written: %w", mode, held.unwritten)
}

// writeMode writes the mode that is held, and reports whether none is held any more.
func (s *Stored) writeMode(ctx context.Context) (written bool) {
	s.brake.mu.Lock()
	held := s.brake.mode
	s.brake.mu.Unlock()
	if held == nil {
		return true
	}
	err := s.writeHeld(ctx, held)
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	if s.brake.mode != held {
		return s.brake.mode == nil
	}
	if held.unwritten = err; err != nil {
		return false
	}
	s.brake.mode = nil
	s.brake.changes++
	s.opts.Log.Info("the mode that was in force on this server only is written", "mode", held.mode)
	return true
}

func (s *Stored) writeHeld(ctx context.Context, held *heldMode) error {
	items, err := ReadItems(ctx, s.opts.Store)
	if err != nil {
		return err
	}
	now, err := ParseResources(items)
	if err != nil {
		return err
	}
	config := now.Config
	if config == nil {
		config = rollout.NewConfig()
	}
	if stricter(config.Spec.Agents.Mode, held.mode) == config.Spec.Agents.Mode {
		return nil
	}
	config.Spec.Agents.Mode = held.mode
	value, err := stored(config)
	if err != nil {
		return err
	}
	write := store.Write{Key: rollout.KindConfig, Value: value, Based: now.Revisions[rollout.KindConfig]}
	audit := store.Audit{Time: s.opts.Clock(), Who: held.who, What: "apply: mode " + string(held.mode), Why: held.why}
	_, err = s.opts.Store.Commit(ctx, store.Change{Writes: []store.Write{write}, Audit: audit})
	return err
}

// stricter returns the more restrictive of two modes; the first if they are the same.
func stricter(a, b rollout.Mode) rollout.Mode {
	order := []rollout.Mode{"", rollout.Enabled, rollout.Suspended, rollout.Disabled}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

// letModeGo is called when people have applied a configuration: their mode counts from then on.
func (s *Stored) letModeGo() {
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	if s.brake.mode != nil {
		s.brake.mode = nil
		s.brake.changes++
	}
}

// put puts what is held over resources that were read.
func (b *brake) put(n *Resources) (changes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n.Rollout, n.Config = b.over(n.Rollout), b.stopped(n.Config)
	return b.changes
}

// stopped returns a configuration, which may be nil, with the mode that is held; the configuration itself if none is.
func (b *brake) stopped(c *rollout.Config) *rollout.Config {
	if b.mode == nil {
		return c
	}
	config := rollout.NewConfig()
	if c != nil {
		*config = *c // of which no more than the mode is another one
	}
	config.Spec.Agents.Mode = stricter(config.Spec.Agents.Mode, b.mode.mode)
	return config
}

// WithMode returns a configuration that was read from the store, which may be nil, as hosts are answered by it: with the
// mode that is in force on this server only.
func (s *Stored) WithMode(c *rollout.Config) *rollout.Config {
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	return s.brake.stopped(c)
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
