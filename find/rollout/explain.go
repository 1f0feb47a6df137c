package rollout

import (
	"fmt"
	"time"
)

// Explanation says why a host gets its answer.
type Explanation struct {
	// Row is the row of FindTable that the answer is from, in words.
	Row string `json:"row"`
	// Reasons are sentences, from what holds for all hosts to what holds for this one.
	Reasons []string `json:"reasons"`
	// Group is the group that counts for the host; empty for none.
	Group string `json:"group,omitempty"`
}

// Explain says why Find gives its answer. Both use the same row, so they always agree.
func (s *Snapshot) Explain(q Query, now time.Time) Explanation {
	a := s.Find(q, now)
	spec := s.rollout.Spec
	x := Explanation{Row: fmt.Sprintf("%s; %s: version %s, update %s", a.Row.Mode, a.Row.Group, a.Row.Version, a.Row.Update)}
	say := func(format string, args ...any) { x.Reasons = append(x.Reasons, fmt.Sprintf(format, args...)) }
	say("The rollout goes from %s to %s, by the schedule %s; updates are %s.", spec.StartVersion, spec.TargetVersion, spec.Schedule,
		a.Row.Mode)
	if order, has := s.override(q, now); has {
		x.Reasons = append(x.Reasons, order.Reason())
	}
	if a.Group < 0 {
		if spec.Schedule != Immediate {
			say("The schedule has no groups, so no host is told to update.")
		}
		return x
	}
	g, t := &s.rollout.Status.Groups[a.Group], &s.groupAnswers[a.Group]
	x.Group = g.Name
	switch {
	case a.Matched:
		say("The host is in group %s.", excerpt(g.Name))
	case q.Group == "":
		say("The host names no group. It gets the answer of the last group, %s.", excerpt(g.Name))
	default:
		say("The host names the group %s, which is not in the schedule. It gets the answer of the last group, %s.", excerpt(q.Group),
			excerpt(g.Name))
	}
	say("Group %s is %s; its last change was at %s (%s).", excerpt(g.Name), g.State, Clock(g.LastUpdateTime), g.LastUpdateReason)
	if g.Halted != nil {
		say("It has been halted since %s: %s.", Clock(g.Halted.Since), g.Halted.Message)
	}
	switch {
	case g.State == Canarying && t.picked(q):
		say("The host is a canary of the group.")
	case g.State == Canarying:
		say("The host is not a canary of the group. It waits for those.")
	case t.update == placeReached && t.plan == nil:
		say("The plan of the group cannot be read, so none of its hosts is told to update.")
	case t.update == placeReached:
		x.Reasons = append(x.Reasons, t.placeWords(q.Host))
	}
	if !t.end.IsZero() && t.row.update != nobody && g.State == Active {
		say("Hosts of the group are told to update before %s.", Clock(t.end))
	}
	if s.hold && !a.Matched && a.Row.update != ordered {
		say("Hosts of no known group are told to stay as they are (unmatched: hold).")
	}
	return x
}

func (t *groupAnswer) placeWords(host string) string {
	place, there := t.plan.Place(ParseHostID(host))
	switch {
	case host == "":
		return "The group has a plan. The host did not say its ID, so it has no place in the plan."
	case !there:
		return "The host is not in the plan of the group: it came later, or was on the version already. It is told to update when " +
			"the group is done."
	case place <= t.last:
		return fmt.Sprintf("The host has place %d of %d in the plan of the group, and places up to %d are told to update.", place+1,
			t.plan.Len(), t.last+1)
	}
	return fmt.Sprintf("The host has place %d of %d in the plan of the group. So far, places up to %d are told to update.", place+1,
		t.plan.Len(), t.last+1)
}
