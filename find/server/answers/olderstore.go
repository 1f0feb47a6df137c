package answers

import (
	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// keepStopped holds what stops updates in the resources before, where the store is an older one now and lacks it: a standby
// was promoted that had not received the last changes, or a copy was put back. Hosts would be told to update until the
// engine halts the groups again, and nobody would suspend the rollout again. Both are written like what could not be written.
func (s *Stored) keepStopped(before, now Resources) {
	if !isOlder(before.Revisions[rollout.KindRollout], now.Revisions[rollout.KindRollout]) &&
		!isOlder(before.Revisions[rollout.KindConfig], now.Revisions[rollout.KindConfig]) {
		return
	}
	if lost := haltsLost(before.Rollout, now.Rollout); lost != nil {
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

// isOlder reports whether an item is of a store that lost changes: revisions fall, or make the step of a new epoch.
func isOlder(before, now store.Revision) bool {
	if before == store.None || now == store.None {
		return false // it was removed, or is new
	}
	return now < before || now-before >= store.EpochStep/2
}

// haltsLost is the rollout of before with no more halts than are missing from the same rollout now; nil if none are.
func haltsLost(before, now *rollout.Rollout) *rollout.Rollout {
	if before == nil || now == nil {
		return nil
	}
	same := before.Spec.TargetVersion == now.Spec.TargetVersion && before.Status.StartTime.Equal(now.Status.StartTime)
	if !same {
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
