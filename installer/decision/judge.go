package decision

import (
	"context"
	"slices"

	"teleport-update/installer/survey"
)

// Checks are all checks, the gravest first: the first condition with a state makes the state of the host. Faults come first, and no setting
// of a person hides a fault.
//
// A check is one row in the file of its section: name, severity, state, subject, meaning, and the function that looks. Status, verify,
// metrics and docs/status.md follow from the row.
var Checks = slices.Concat(records(), agentFaults(), runFaults(), risks(), waits(), notes())

// Judge asks all checks that apply.
func Judge(ctx context.Context, s *survey.Survey, q Question) Verdict {
	h := &facts{Context: ctx, Survey: s, Question: q}
	holds := h.situation()
	f := &finder{}
	var asked []string
	var notKnown []Type
	for _, check := range Checks {
		if check.find == nil {
			continue
		}
		if check.asked&^holds != 0 {
			if !check.rulesOut(holds) {
				notKnown = append(notKnown, check.Type)
			}
			continue
		}
		f.check = check
		before := len(f.all)
		if check.Severity == Fault && !slices.Contains(asked, check.Subject) {
			asked = append(asked, check.Subject)
		}
		err := check.find(h, f)
		found := len(f.all) > before
		if err != nil {
			f.blind(check.Subject, err)
		}
		if long, _ := check.TakesLong(); !found && (err != nil || long && !h.Deep) {
			notKnown = append(notKnown, check.Type)
		}
	}
	v := SumUp(f.all)
	v.Asked, v.NotSeen, v.NotKnown = asked, f.notSeen, notKnown
	return v
}

// situation returns the conditions that decide which checks apply.
func (h *facts) situation() (holds when) {
	holds = partly
	var err error
	if h.c, err = h.Config(); err == nil {
		holds |= readable
	}
	if h.Deep {
		holds |= deep
	}
	if t, err := h.Transaction(); err != nil {
		holds |= quiet // as far as can be told
	} else if t == nil {
		holds |= settled | quiet
	} else if !t.Running {
		holds |= quiet
	}
	if h.c.Spec.ActiveVersion != "" {
		holds |= active
		h.agent, h.blind = h.Agent(h)
	}
	if h.c.Spec.Enabled {
		holds |= enabled
		if !h.c.Spec.Pinned {
			holds |= follows
		}
	}
	return holds
}

// SumUp puts the gravest condition first, and derives the state from it.
func SumUp(all []Condition) Verdict {
	sorted := append([]Condition{}, all...) // never nil: JSON readers loop over it
	slices.SortStableFunc(sorted, func(a, b Condition) int { return gravity(a.Type) - gravity(b.Type) })
	for _, c := range sorted {
		if s := Checks[gravity(c.Type)].State; s != Idle {
			return Verdict{State: s, Explanation: c.Message, Conditions: sorted}
		}
	}
	for _, c := range sorted {
		if c.Type == TargetNone {
			return Verdict{State: Idle, Explanation: c.Message, Conditions: sorted}
		}
	}
	return Verdict{State: Idle, Explanation: "the version that the cluster wants is active", Conditions: sorted}
}

func gravity(t Type) int {
	return slices.IndexFunc(Checks, func(c Check) bool { return c.Type == t })
}

// Of reports whether a condition of one of these types makes the state.
func (v Verdict) Of(types ...Type) bool {
	return slices.ContainsFunc(v.Conditions, func(c Condition) bool { return slices.Contains(types, c.Type) })
}
