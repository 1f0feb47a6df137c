package answers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

// heldMode is a mode that people want and the store does not have yet.
type heldMode struct {
	mode      rollout.Mode
	who, why  string
	unwritten error // why it is not written
	since     *asOf // later changes by people count; nil if nobody can have made one yet
}

// clocksApart is the accepted difference between the clocks of two servers with
// decisions.
const clocksApart = 10 * time.Second

// HoldMode stops updates in this server's answers, as people want it, even if the store cannot be written. The mode is
// written as soon as that is possible, unless people have set another mode since, at any server.
func (s *Stored) HoldMode(ctx context.Context, mode rollout.Mode, audit store.Audit) error {
	if mode != rollout.Suspended && mode != rollout.Disabled {
		return parts.Refuse(fmt.Errorf("%s is no mode that stops updates", mode))
	}
	held := &heldMode{mode: mode, who: cmp.Or(audit.Who, "unknown"), why: audit.Why}
	s.brake.mu.Lock()
	s.brake.mode = held
	s.brake.changes++
	s.brake.mu.Unlock()
	unmade := s.remake()
	switch written := s.writeMode(ctx); {
	case written && unmade != nil:
		return fmt.Errorf("the mode %s is written, and not in force on this server yet: %w", mode, unmade)
	case written:
		return nil
	}
	since := &asOf{read: s.lastRead(), from: s.opts.Clock().Add(clocksApart)}
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	held.since = since
	if unmade != nil {
		return fmt.Errorf("the mode %s is neither in force (%w) nor written: %w", mode, unmade, held.unwritten)
	}
	s.opts.Log.Error("updates are stopped on this server only: the mode could not be written yet", "mode", mode, "by", audit.Who, "error",
		held.unwritten)
	return fmt.Errorf("the mode %s is in force on this server only, not yet written: %w", mode, held.unwritten)
}

// writeMode writes the held mode, and reports whether no mode is held any longer.
func (s *Stored) writeMode(ctx context.Context) (written bool) {
	s.brake.mu.Lock()
	held := s.brake.mode
	if held == nil {
		s.brake.mu.Unlock()
		return true
	}
	since := held.since
	s.brake.mu.Unlock()
	decided, err := s.writeHeld(ctx, held, since)
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
	if decided {
		s.opts.Log.Warn("people have set another mode since: the one that was in force on this server only is dropped", "mode", held.mode,
			"by", held.who)
	} else {
		s.opts.Log.Info("the mode that was in force on this server only is written", "mode", held.mode)
	}
	return true
}

// writeHeld writes a mode, unless people have set another one since.
func (s *Stored) writeHeld(ctx context.Context, held *heldMode, since *asOf) (decided bool, err error) {
	now, err := ReadResources(ctx, s.opts.Store)
	if err != nil {
		return false, err
	}
	config := now.Config
	if config == nil {
		config = rollout.NewConfig()
	}
	if stricter(config.Spec.Agents.Mode, held.mode) == config.Spec.Agents.Mode {
		return false, nil
	}
	if since != nil {
		d, err := decisionsIn(ctx, s.opts.Store)
		if err != nil || d.setMode(*since, rollout.KindConfig, rollout.KindVersion) {
			return err == nil, err
		}
	}
	config.Spec.Agents.Mode = held.mode
	value, err := stored(config)
	if err != nil {
		return false, err
	}
	write := store.Write{Key: rollout.KindConfig, Value: value, Based: now.Revisions[rollout.KindConfig]}
	audit := store.Audit{Time: s.opts.Clock(), Who: held.who, What: applied + "mode " + string(held.mode), Why: held.why}
	_, err = s.opts.Store.Commit(ctx, store.Change{Writes: []store.Write{write}, Audit: audit})
	return false, err
}

// stricter returns the more restrictive of two modes; the first if they are the same.
func stricter(a, b rollout.Mode) rollout.Mode {
	order := []rollout.Mode{"", rollout.Enabled, rollout.Suspended, rollout.Disabled}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

// heldNow returns the held mode, or nil.
func (s *Stored) heldNow() *heldMode {
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	return s.brake.mode
}

// left returns the held mode that remains once people's resources are written: nil if they set another mode than the store's
// configuration. A configuration with the store's mode that would update hosts is refused: it was made from the store's copy,
// or a program applies it again and again.
func (m *heldMode) left(list []rollout.Resource, there map[string]store.Item) (*heldMode, error) {
	at := slices.IndexFunc(list, func(r rollout.Resource) bool { return r.GetKind() == rollout.KindConfig })
	if m == nil || at < 0 {
		return m, nil
	}
	mode := list[at].(*rollout.Config).Spec.Agents.Mode
	var was rollout.Mode
	if item, is := there[rollout.KindConfig]; is {
		before, err := parseStored(item)
		if err != nil {
			return nil, nil // the mode cannot be written before it is replaced
		}
		was = before.(*rollout.Config).Spec.Agents.Mode
	}
	switch {
	case was != mode:
		return nil, nil
	case stricter(mode, m.mode) != mode:
		return nil, parts.Refusef("the mode %s is in force on this server and not yet written, and %s has the mode that the store has: "+
			"apply it once the mode is written", m.mode, rollout.KindConfig)
	}
	return m, nil
}

// letModeGo drops the held mode, since people have applied another one.
func (s *Stored) letModeGo(held *heldMode) {
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	if held != nil && s.brake.mode == held {
		s.brake.mode = nil
		s.brake.changes++
	}
}

// over returns a configuration, which may be nil, with the held mode; the configuration itself if m is nil.
func (m *heldMode) over(c *rollout.Config) *rollout.Config {
	if m == nil {
		return c
	}
	config := rollout.NewConfig()
	if c != nil {
		*config = *c // only the mode is changed
	}
	config.Spec.Agents.Mode = stricter(config.Spec.Agents.Mode, m.mode)
	return config
}

// WithMode returns the configuration behind the answers: the store's configuration, which may be nil, with the mode that
// is in force on this server only.
func (s *Stored) WithMode(c *rollout.Config) *rollout.Config {
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	return s.brake.mode.over(c)
}
