package answers

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// keepStopped holds the halts and the mode of the resources before if another store, or an older copy, lacks them now: a
// standby was promoted without the last changes, or a backup was put back. Otherwise hosts would update until the engine
// halts the groups again, and nobody would suspend the rollout again. Both are written later, like halts and modes that
// could not be written. keepStopped applies only to the first read of such a store: people make the later changes.
func (s *Stored) keepStopped(ctx context.Context, before, now Resources, at moment) error {
	d, err := decisionsIn(ctx, s.opts.Store)
	if err != nil {
		return err
	}
	known := append([]*rollout.Rollout{before.Rollout}, s.left...)
	s.keepLost(known, now, at, d)
	for _, r := range known {
		if !hasHalts(r) || !isSame(r, now.Rollout) {
			continue
		}
		if more := s.brake.hold(stillHalted(r, now.Rollout, d, s.last.at)); len(more) > 0 {
			s.opts.Log.Error("the store is older than it was, and its rollout goes on: groups stay halted", "groups", more)
		}
	}
	s.keepMode(before, now, at, d)
	return nil
}

// keepMode holds the mode before if the store has lost it, from whichever resource.
func (s *Stored) keepMode(before, now Resources, at moment, d decisions) {
	if before.Config == nil && agentsMode(before) == "" {
		return // nobody has set a mode
	}
	was, is := rollout.EffectiveMode(before.Config, before.Version), rollout.EffectiveMode(now.Config, now.Version)
	if stricter(is, was) == is {
		return
	}
	// Later changes by people count.
	unread := asOf{read: s.last.at}
	if before.isItem(rollout.KindConfig, now) || d.setMode(unread, rollout.KindConfig) {
		before.Config = now.Config
	}
	if before.isItem(rollout.KindVersion, now) || d.setMode(unread, rollout.KindVersion) {
		before.Version = now.Version
	}
	if was = rollout.EffectiveMode(before.Config, before.Version); stricter(is, was) == is {
		return
	}
	s.brake.mu.Lock()
	defer s.brake.mu.Unlock()
	if held := s.brake.mode; held != nil && stricter(held.mode, was) == held.mode {
		return
	}
	s.brake.mode = &heldMode{mode: was, who: storeName, why: "it was in force before the store became an older one", unwritten: errLost,
		since: &asOf{read: at.at}}
	s.brake.changes++
	s.opts.Log.Error("the store is older than it was, and its mode stops nothing: the mode of before stays", "mode", was)
}

var errLost = errors.New("the store has lost it")

// isItem reports whether other resources have the same item of a kind.
func (n Resources) isItem(kind string, other Resources) bool {
	a, b := n.item(kind), other.item(kind)
	return a.Revision == b.Revision && bytes.Equal(a.Value, b.Value)
}

// item returns the item of a kind, without a revision if there is no item.
func (n Resources) item(kind string) store.Item {
	if at := slices.IndexFunc(n.items, func(i store.Item) bool { return i.Key == kind }); at >= 0 {
		return n.items[at]
	}
	return store.Item{Key: kind}
}

// maxLeft is how many replaced rollouts are kept: a store that lost its last seconds lost hardly more.
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

// stillHalted returns the rollout now with the halts of before, for groups that lack their halt now although nobody let them go
// on. An order lets a group go on; a group also goes on by leaving the halted trial. If before is another rollout, its trials
// do not compare: then only people end a halt. The result is for the brake.
func stillHalted(before, now *rollout.Rollout, d decisions, read store.Revision) *rollout.Rollout {
	with := now.Clone()
	for i := range with.Status.Groups {
		g := &with.Status.Groups[i]
		at := slices.IndexFunc(before.Status.Groups, func(l rollout.GroupStatus) bool { return l.Name == g.Name })
		if g.Halted != nil || at < 0 || before.Status.Groups[at].Halted == nil {
			g.Halted = nil
			continue
		}
		halted := before.Status.Groups[at]
		if !isSame(before, now) {
			halted.StartTime = time.Time{}
		}
		if heldHaltOf(&halted).isOver(g) || d.ordered(asOf{read, now.Status.StartTime}, g.Name) {
			continue
		}
		with.Status.Groups[i] = halted
	}
	return with
}

// agentsMode returns the more restrictive of the modes that people have set, or "".
func agentsMode(n Resources) (mode rollout.Mode) {
	if n.Config != nil {
		mode = n.Config.Spec.Agents.Mode
	}
	if n.Version != nil {
		mode = stricter(mode, n.Version.Spec.Agents.Mode)
	}
	return mode
}
