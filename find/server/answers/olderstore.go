package answers

import (
	"slices"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// keepStopped holds what stops updates in the resources before, where the store is an older one now and lacks it: a standby
// was promoted that had not received the last changes, or a copy was put back. Hosts would be told to update until the
// engine halts the groups again, and nobody would suspend the rollout again. Both are written like what could not be written.
func (s *Stored) keepStopped(before, now Resources) {
	s.keepLeft(before.Rollout, now.Rollout)
	if !isOlder(before.Revisions[rollout.KindRollout], now.Revisions[rollout.KindRollout]) &&
		!isOlder(before.Revisions[rollout.KindConfig], now.Revisions[rollout.KindConfig]) {
		return
	}
	for _, known := range append([]*rollout.Rollout{before.Rollout}, s.left...) {
		lost := haltsLost(known, now.Rollout)
		if lost == nil {
			continue
		}
		if more := s.brake.hold(lost); len(more) > 0 {
			s.opts.Log.Error("the store is older than it was, and its rollout goes on: groups stay halted", "groups", more)
		}
	}
	was, is := agentsMode(before.Config), agentsMode(now.Config)
	if stops := was == rollout.Suspended || was == rollout.Disabled; stops && stricter(is, was) != is {
		s.brake.mu.Lock()
		s.brake.mode = &heldMode{mode: was, who: "store", why: "it was in force before the store became an older one"}
		s.brake.changes++
		s.brake.mu.Unlock()
		s.opts.Log.Error("the store is older than it was, and its mode stops nothing: the mode of before stays", "mode", was)
	}
}

// maxLeft is how many rollouts are kept that others have followed: a store that lost its last seconds lost hardly more.
const maxLeft = 4

// keepLeft keeps a rollout with halts when another one follows it: a store that lost both may go on with the first.
func (s *Stored) keepLeft(before, now *rollout.Rollout) {
	halted := func(g rollout.GroupStatus) bool { return g.Halted != nil }
	if before == nil || isSame(before, now) || !slices.ContainsFunc(before.Status.Groups, halted) {
		return
	}
	s.left = slices.DeleteFunc(s.left, func(r *rollout.Rollout) bool { return isSame(r, before) })
	s.left = append([]*rollout.Rollout{before}, s.left...)
	s.left = s.left[:min(len(s.left), maxLeft)]
}

func isSame(a, b *rollout.Rollout) bool {
	return a != nil && b != nil && a.Spec.TargetVersion == b.Spec.TargetVersion && a.Status.StartTime.Equal(b.Status.StartTime)
}

// isOlder reports whether an item is of a store that lost changes: revisions fall, or make the step of a new epoch.
func isOlder(before, now store.Revision) bool {
	if before == store.None || now == store.None {
		return false // it was removed, or is new
	}
	return now < before || now-before >= store.EpochStep/2
}

// haltsLost is the rollout of before with no more halts than are missing from the same rollout now; nil if none are.
func haltsLost(before, now *rollout.Rollout) *rollout.Rollout {
	if !isSame(before, now) {
		return nil
	}
	halted := make(map[string]bool)
	for i := range now.Status.Groups {
		halted[now.Status.Groups[i].Name] = now.Status.Groups[i].Halted != nil
	}
	lost := before.Clone()
	found := false
	for i := range lost.Status.Groups {
		g := &lost.Status.Groups[i]
		if g.Halted != nil && halted[g.Name] {
			g.Halted = nil
		}
		found = found || g.Halted != nil
	}
	if !found {
		return nil
	}
	return lost
}

func agentsMode(c *rollout.Config) rollout.Mode {
	if c == nil {
		return ""
	}
	return c.Spec.Agents.Mode
}
