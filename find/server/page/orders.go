package page

import (
	"net/url"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/internal/console"
)

// suspend is the verb that suspends all updates. It is no order to a group.
const suspend = rollout.Verb("suspend")

// labels are the names of the orders that a form can give.
var labels = map[rollout.Verb]string{
	rollout.StartUpdate: "Start", rollout.Retry: "Retry", rollout.MarkDone: "Mark done", rollout.Rollback: "Roll back",
	suspend: "Suspend updates",
	// Orders to one host.
	rollout.Verb(rollout.UpdateHost): "Update", rollout.Verb(rollout.HoldHost): "Hold", rollout.Verb(rollout.ReleaseHost): "Release",
}

// action is an order that a form gives.
type action struct {
	Verb             rollout.Verb
	Label, Group, To string
	Host             string // an ID; the order is to this host if it is set
	Force            bool
}

// actionOf returns the action of a form. Its label is empty if no form has the verb.
func actionOf(get func(string) string) action {
	a := action{Verb: rollout.Verb(get("verb")), Group: console.Line(get("group")), Host: console.Line(get("host")),
		To:    console.Line(get("to")),
		Force: get("force") == "true"}
	ofHost := new(rollout.HostAction).UnmarshalText([]byte(a.Verb)) == nil
	// A form that says more than its order takes would be named after what it does not do.
	if of := (action{Verb: a.Verb, Host: a.Host}); ofHost != (a.Host != "") || ofHost && a != of {
		return a
	}
	a.Label = labels[a.Verb]
	return a
}

// order returns the order of an action, for the admin API.
func (a action) order(reason string) adminapi.Order {
	return adminapi.Order{Verb: a.Verb, Groups: []string{a.Group}, Force: a.Force, To: a.To, Reason: reason}
}

// is reports whether a choice is the same order.
func (a action) is(c rollout.Choice) bool {
	return c.Verb == a.Verb && c.Group == a.Group && c.Host == a.Host && c.Force == a.Force && c.To == a.To
}

// choice is a choice with the address of its form. Without a form, people type its command.
type choice struct {
	rollout.Choice
	Label, Form string
}

// choicesFor returns choices with the forms that a visitor may use.
func choicesFor(v *visit, choices []rollout.Choice) (list []choice) {
	for _, c := range choices {
		verb, right := c.Verb, adminapi.Command
		if c == rollout.Suspension {
			verb, right = suspend, adminapi.Suspend
		}
		one := choice{Choice: c, Label: labels[verb]}
		if one.Label != "" && v.may(right) {
			values := url.Values{"verb": {string(verb)}}
			force := map[bool]string{true: "true"}[c.Force]
			for name, value := range map[string]string{"group": c.Group, "host": c.Host, "to": c.To, "force": force} {
				if value != "" {
					values.Set(name, value)
				}
			}
			one.Form = Path + "act?" + values.Encode()
		}
		list = append(list, one)
	}
	return list
}

// doesOf returns what an action does, by the choices of its group; empty if its group has no such choice.
func doesOf(now rollout.Overview, a action) string {
	for _, g := range now.Groups {
		for _, c := range g.Orders {
			if a.is(c) {
				return c.Does
			}
		}
	}
	return ""
}
