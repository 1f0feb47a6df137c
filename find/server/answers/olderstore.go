package answers

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// keepStopped holds what stops updates in the resources before, where another store is there now, or a copy, and lacks it: a
// standby was promoted that had not received the last changes, or a backup was put back. Hosts would be told to update until
// the engine halts the groups again, and nobody would suspend the rollout again. Both are written like what could not be
// written. It is for the first resources that are read of a store: what changes in it later, people have changed.
func (s *Stored) keepStopped(ctx context.Context, before, now Resources, at moment) error {
	known := append([]*rollout.Rollout{before.Rollout}, s.left...)
	if err := s.keepLost(ctx, known, now, at); err != nil {
		return err
	}
	for _, r := range known {
		lost := haltsLost(r, now.Rollout)
		if lost == nil {
			continue
		}
		if more := s.brake.hold(lost); len(more) > 0 {
			s.opts.Log.Error("the store is older than it was, and its rollout goes on: groups stay halted", "groups", more)
		}
	}
	return s.keepMode(ctx, before, now)
}

// keepMode holds the mode before if the store has lost it, whichever resource had it.
func (s *Stored) keepMode(ctx context.Context, before, now Resources) error {
	if before.Config == nil && agentsMode(before) == "" {
		return nil // nobody has said that no host updates
	}
	was, is := rollout.EffectiveMode(before.Config, before.Version), rollout.EffectiveMode(now.Config, now.Version)
	if stricter(is, was) == is {
		return nil
	}
	// What people have changed since is as they want it.
	for _, kind := range []string{rollout.KindConfig, rollout.KindVersion} {
		follows, err := s.follows(ctx, kind, before, now)
		if err != nil {
			return err
		}
		if follows && kind == rollout.KindConfig {
			before.Config = now.Config
		} else if follows {
			before.Version = now.Version
		}
	}
	if was = rollout.EffectiveMode(before.Config, before.Version); stricter(is, was) == is {
		return nil
	}
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	if held := s.brake.mode; held != nil && stricter(held.mode, was) == held.mode {
		return nil
	}
	s.brake.mode = &heldMode{mode: was, who: "store", why: "it was in force before the store became an older one", unwritten: errLost}
	s.brake.changes++
	s.opts.Log.Error("the store is older than it was, and its mode stops nothing: the mode of before stays", "mode", was)
	return nil
}

var errLost = errors.New("the store has lost it")

// maxFollows is how many records of the history are searched for what followed a resource.
const maxFollows = 1000

// follows reports whether the resource of a kind is the one before, or one that people have made of it. The history says so
// by the revision that a change was based on, if the change is of a later epoch: the same epoch may have had that revision
// twice, once in a change that was lost.
func (s *Stored) follows(ctx context.Context, kind string, before, now Resources) (bool, error) {
	was, is := before.item(kind), now.item(kind)
	if was.Revision == is.Revision && bytes.Equal(was.Value, is.Value) {
		return true, nil
	}
	history, err := s.opts.Store.History(ctx, maxFollows)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(history, func(e store.HistoryEntry) bool {
		return e.Key == kind && e.From == was.Revision && e.From != store.None && e.To-e.From >= store.EpochStep/2
	}), nil
}

// item is the item of a kind, without a revision if there is none.
func (n Resources) item(kind string) store.Item {
	if at := slices.IndexFunc(n.items, func(i store.Item) bool { return i.Key == kind }); at >= 0 {
		return n.items[at]
	}
	return store.Item{Key: kind}
}

// maxLeft is how many rollouts are kept that others have followed: a store that lost its last seconds lost hardly more.
const maxLeft = 4

// keepLeft keeps a rollout with halts when another one follows it: a store that lost both may go on with the first.
func (s *Stored) keepLeft(before, now *rollout.Rollout) {
	if !hasHalts(before) || isSame(before, now) {
		return
	}
	s.left = slices.DeleteFunc(s.left, func(r *rollout.Rollout) bool { return isSame(r, before) })
	s.left = append([]*rollout.Rollout{before}, s.left...)
	s.left = s.left[:min(len(s.left), maxLeft)]
}

func isSame(a, b *rollout.Rollout) bool {
	return a != nil && b != nil && a.Spec.TargetVersion == b.Spec.TargetVersion && a.Status.StartTime.Equal(b.Status.StartTime)
}

// haltsLost is the rollout of before with no more halts than are missing from the same rollout now, and that nobody has
// lifted; nil if none are.
func haltsLost(before, now *rollout.Rollout) *rollout.Rollout {
	if !isSame(before, now) {
		return nil
	}
	lost := before.Clone()
	found := false
	for i := range lost.Status.Groups {
		g := &lost.Status.Groups[i]
		if g.Halted != nil && !isLost(g, now) {
			g.Halted = nil
		}
		found = found || g.Halted != nil
	}
	if !found {
		return nil
	}
	return lost
}

// isLost reports whether a group that was halted goes on in a rollout, and nobody had it go on.
func isLost(halted *rollout.GroupStatus, now *rollout.Rollout) bool {
	at := slices.IndexFunc(now.Status.Groups, func(g rollout.GroupStatus) bool { return g.Name == halted.Name })
	if at < 0 {
		return true
	}
	g := &now.Status.Groups[at]
	return g.Halted == nil && !heldHaltOf(halted).isOver(g)
}

// agentsMode is the more restrictive one of the modes that people have set; empty for none.
func agentsMode(n Resources) (mode rollout.Mode) {
	if n.Config != nil {
		mode = n.Config.Spec.Agents.Mode
	}
	if n.Version != nil {
		mode = stricter(mode, n.Version.Spec.Agents.Mode)
	}
	return mode
}
