package answers

import (
	"context"
	"slices"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// lostRollout is a rollout with halts that a store has lost as a whole: a standby was promoted that had received neither.
// The engine or people begin it again, and nobody has decided anything about its halts.
type lostRollout struct {
	*rollout.Rollout
	instead rollout.Semver // the target of the store that has lost it; empty for none
}

// clocksApart is more than the clocks of two servers differ by that both step a rollout.
const clocksApart = time.Minute

// keepLost keeps those of the rollouts with halts that the store has lost as a whole.
func (s *Stored) keepLost(ctx context.Context, known []*rollout.Rollout, now Resources, at moment) error {
	known = slices.DeleteFunc(slices.Clone(known), func(r *rollout.Rollout) bool { return !hasHalts(r) || isSame(r, now.Rollout) })
	if len(known) == 0 {
		return nil
	}
	history, err := s.opts.Store.History(ctx, maxFollows)
	if err != nil {
		return err
	}
	for _, r := range known {
		if isKept(store.Revision(r.Metadata.Revision), at.at, history) {
			continue
		}
		s.left = slices.DeleteFunc(s.left, func(l *rollout.Rollout) bool { return isSame(l, r) })
		s.lost = slices.DeleteFunc(s.lost, func(l lostRollout) bool { return isSame(l.Rollout, r) })
		s.lost = append(s.lost, lostRollout{r, targetOf(now.Rollout)})
	}
	s.lost = s.lost[max(0, len(s.lost)-maxLeft):]
	return nil
}

// isKept reports whether a store has what was written at a revision, after another store or an older state took its place.
// Without a record of the revision at which its epoch ended nobody knows: it counts as lost, since to stop too much is
// what people can undo.
func isKept(written, now store.Revision, history []store.HistoryEntry) bool {
	epoch := func(r store.Revision) store.Revision { return r / store.EpochStep }
	if epoch(now) == epoch(written) {
		return written <= now
	}
	return slices.ContainsFunc(history, func(e store.HistoryEntry) bool {
		return e.Key == store.FailoverKey && epoch(e.From) == epoch(written) && written <= e.From
	})
}

// holdLost holds the halts of a rollout that the store has lost once a rollout to the same version is there: whoever gives
// the version again after a failover has not decided that its failures do not count. A person who retries the group has. Once
// people go on to yet another version, nothing is held.
func (s *Stored) holdLost(now *rollout.Rollout) {
	s.lost = slices.DeleteFunc(s.lost, func(l lostRollout) bool {
		switch target := targetOf(now); {
		case target == "" || target == l.instead && target != l.Spec.TargetVersion:
			return false
		case target != l.Spec.TargetVersion:
			return true
		case now.Status.StartTime.Before(l.Status.StartTime.Add(-clocksApart)):
			return false // one of before
		}
		if more := s.brake.hold(haltsOf(l.Rollout, now)); len(more) > 0 {
			s.opts.Log.Error("a failover has lost a rollout with its halts, and its version is given again: groups stay halted until "+
				"somebody retries them", "agent_version", l.Spec.TargetVersion, "groups", more)
		}
		return true
	})
}

// haltsOf is a rollout with the halts of another one, and of no trial: only what people do to a group ends them.
func haltsOf(lost, now *rollout.Rollout) *rollout.Rollout {
	with := now.Clone()
	for i := range with.Status.Groups {
		g := &with.Status.Groups[i]
		g.Halted = nil
		at := slices.IndexFunc(lost.Status.Groups, func(l rollout.GroupStatus) bool { return l.Name == g.Name })
		if at < 0 || lost.Status.Groups[at].Halted == nil {
			continue
		}
		halted := lost.Status.Groups[at]
		halted.StartTime = time.Time{}
		with.Status.Groups[i] = halted
	}
	return with
}

func hasHalts(r *rollout.Rollout) bool {
	return r != nil && slices.ContainsFunc(r.Status.Groups, func(g rollout.GroupStatus) bool { return g.Halted != nil })
}

// targetOf is the version that a rollout, which may be nil, leads to.
func targetOf(r *rollout.Rollout) rollout.Semver {
	if r == nil {
		return ""
	}
	return r.Spec.TargetVersion
}
