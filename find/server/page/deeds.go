package page

import (
	"slices"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/internal/console"
)

// suspend is the verb that suspends all updates. It is no order to a group.
const suspend = rollout.Verb("suspend")

// action is a button.
type action struct {
	Verb         rollout.Verb
	Label, Group string
	Force        bool
}

// deed is a verb with its label and its conditions.
type deed struct {
	verb   rollout.Verb
	label  string
	force  bool
	right  adminapi.Right
	offers func(rollout.GroupOverview) bool // whether a group in this state has the button; the dry run has the last word
}

var deeds = []deed{
	{rollout.StartUpdate, "Start", false, adminapi.Command, func(g rollout.GroupOverview) bool {
		return g.Halted == nil && in(g, rollout.Unstarted, rollout.RolledBack)
	}},
	{rollout.StartUpdate, "Start without canaries", true, adminapi.Command, func(g rollout.GroupOverview) bool {
		return g.Halted == nil && in(g, rollout.Unstarted, rollout.Canarying)
	}},
	{rollout.Retry, "Retry", false, adminapi.Command, func(g rollout.GroupOverview) bool {
		return g.Halted != nil && in(g, rollout.Unstarted, rollout.Canarying, rollout.Active)
	}},
	{rollout.MarkDone, "Mark done", false, adminapi.Command, func(g rollout.GroupOverview) bool {
		return in(g, rollout.Unstarted, rollout.Canarying, rollout.Active, rollout.RolledBack)
	}},
	{rollout.Rollback, "Roll back", false, adminapi.Command, func(g rollout.GroupOverview) bool {
		return in(g, rollout.Canarying, rollout.Active, rollout.Done)
	}},
	{suspend, "Suspend updates", false, adminapi.Suspend, nil},
}

func in(g rollout.GroupOverview, states ...rollout.State) bool {
	return slices.Contains(states, g.State)
}

// deedOf returns the deed for a form. It returns false if no button has the verb.
func deedOf(a action) (deed, bool) {
	at := slices.IndexFunc(deeds, func(d deed) bool { return d.verb == a.Verb && d.force == a.Force })
	if at < 0 {
		return deed{}, false
	}
	return deeds[at], true
}

// actionsFor returns the buttons of a group for a visitor.
func actionsFor(v *visit, g rollout.GroupOverview) (list []action) {
	for _, d := range deeds {
		if d.offers != nil && v.may(d.right) && d.offers(g) {
			list = append(list, action{d.verb, d.label, g.Name, d.force})
		}
	}
	return list
}

// actionsForAll returns the buttons for the whole rollout.
func actionsForAll(v *visit, mode rollout.Mode) []action {
	if mode != rollout.Enabled || !v.may(adminapi.Suspend) {
		return nil
	}
	return []action{{Verb: suspend, Label: "Suspend updates"}}
}

// intended returns the action that a form asks for.
func intended(get func(string) string) action {
	a := action{Verb: rollout.Verb(get("verb")), Group: console.Line(get("group")), Force: get("force") == "true"}
	if d, known := deedOf(a); known {
		a.Label = d.label
	}
	return a
}

// order returns the order of an action, for the admin API.
func (a action) order(reason string) adminapi.Order {
	return adminapi.Order{Verb: a.Verb, Groups: []string{a.Group}, Force: a.Force, Reason: reason}
}
