package answers

import (
	"context"
	"slices"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// lostRollout is a rollout with halts that a store has lost entirely: a standby was promoted without the rollout and its
// halts. The engine or people begin it again, and nobody has decided anything about its halts.
type lostRollout struct {
	*rollout.Rollout
	read    store.Revision          // the last revision that was read before
	instead map[rollout.Semver]bool // targets in the store after this failover or a later one
}

// keepLost remembers rollouts with halts that the store has lost entirely. Without a record of the failover, they count as
// lost.
func (s *Stored) keepLost(known []*rollout.Rollout, now Resources, at moment, d decisions) {
	for _, r := range known {
		if !hasHalts(r) || isSame(r, now.Rollout) {
			continue
		}
		// A promoted standby without a change since is still in the earlier epoch.
		written := store.Revision(r.Metadata.Revision)
		if epochOf(at.at) == epochOf(written) && written <= at.at || d.kept(written) {
			continue
		}
		s.left = slices.DeleteFunc(s.left, func(l *rollout.Rollout) bool { return isSame(l, r) })
		s.lost = slices.DeleteFunc(s.lost, func(l lostRollout) bool { return isSame(l.Rollout, r) })
		s.lost = append(s.lost, lostRollout{r, s.last.at, make(map[rollout.Semver]bool)})
	}
	s.lost = s.lost[max(0, len(s.lost)-maxLeft):]
	var chosen, target rollout.Semver
	if target = targetOf(now.Rollout); now.Version != nil {
		chosen = now.Version.Spec.Agents.TargetVersion
	}
	isUnread := now.Version != nil && store.Revision(now.Version.Metadata.Revision) > s.last.at
	for _, l := range s.lost {
		if !isUnread || target != chosen {
			l.instead[target] = true
		}
		if !isUnread { // the engine makes a rollout of this version, and people have not chosen it since
			l.instead[chosen] = true
		}
	}
}

// holdLost holds the halts of a lost rollout once there is a rollout to the same version. A person who sets the version again
// after a failover has not decided to ignore its failures, and a store that goes on with an earlier rollout to it shows no
// decision either. A retry of the group does. Once people go on to yet another version, nothing is held.
func (s *Stored) holdLost(ctx context.Context, now *rollout.Rollout) error {
	target := targetOf(now)
	isAgain := func(l lostRollout) bool { return l.Spec.TargetVersion == target }
	if slices.ContainsFunc(s.lost, isAgain) {
		d, err := decisionsIn(ctx, s.opts.Store)
		if err != nil {
			return err
		}
		for _, l := range s.lost {
			if !isAgain(l) {
				continue
			}
			if more := s.brake.hold(stillHalted(l.Rollout, now, d, l.read)); len(more) > 0 {
				s.opts.Log.Error("a failover has lost a rollout with its halts, and its version is given again: groups stay halted until "+
					"somebody retries them", "agent_version", target, "groups", more)
			}
		}
	}
	s.lost = slices.DeleteFunc(s.lost, func(l lostRollout) bool { return isAgain(l) || target != "" && !l.instead[target] })
	return nil
}

func hasHalts(r *rollout.Rollout) bool {
	return r != nil && slices.ContainsFunc(r.Status.Groups, func(g rollout.GroupStatus) bool { return g.Halted != nil })
}

// targetOf returns the target version of a rollout, which may be nil.
func targetOf(r *rollout.Rollout) rollout.Semver {
	if r == nil {
		return ""
	}
	return r.Spec.TargetVersion
}
