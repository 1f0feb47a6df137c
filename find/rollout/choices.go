package rollout

import (
	"fmt"
	"slices"
	"strings"
)

// Choice is something that a person can do next, with its consequence in the present state of the rollout. "teleport-find
// status" and the page show the same choices, the safe one first.
type Choice struct {
	// Command is a command of teleport-find without the program's name. It is empty if waiting is right.
	Command string `json:"command,omitempty"`
	// Does is what the command does here or, without a command, what happens by itself.
	Does string `json:"does"`
	// Verb, Group or Host, Force and To are the order that the command gives. Verb is empty if it gives none; it is a HostAction
	// if Host, an ID, is set.
	Verb  Verb   `json:"verb,omitempty"`
	Group string `json:"group,omitempty"`
	Host  string `json:"host,omitempty"`
	Force bool   `json:"force,omitempty"`
	To    string `json:"to,omitempty"`
}

// Suspension is the choice that stops every group.
var Suspension = Choice{Command: "mode suspended", Does: "tells no further host to update, and no group goes on"}

// wait is the choice to do nothing.
func wait(format string, args ...any) Choice { return Choice{Does: fmt.Sprintf(format, args...)} }

// restart is the choice of a new rollout of the same version.
func (v *sight) restart() Choice {
	return Choice{Command: Reset.Command(), Verb: Reset, Does: fmt.Sprintf("starts %s again, from the first group", v.target)}
}

// bySafety are the orders to a group: the first ones tell no host to run a new version.
var bySafety = []Order{
	{Verb: Rollback}, {Verb: Rollback, To: BackToPrevious}, {Verb: Retry},
	{Verb: StartUpdate}, {Verb: StartUpdate, Force: true}, {Verb: MarkDone},
}

// offer returns the orders with one of the verbs that the server would carry out for a group now, the safe one first. Of the
// orders with one verb, it returns the first that is not refused. later are the verbs that the server takes once it knows all hosts.
func (v *sight) offer(g *GroupStatus, verbs ...Verb) (list []Choice, later []Verb) {
	if v.engine == nil {
		v.engine = newEngine(v.Rollout, v.Counts, moment(v.Now))
	}
	e, known := v.engine, v.engine.uncounted
	defer func() { e.uncounted = known }()
	s := e.steps[v.Rollout.group(g.Name)]
	decided := make(map[Verb]bool)
	for _, o := range bySafety {
		if !slices.Contains(verbs, o.Verb) || decided[o.Verb] {
			continue
		}
		o.Groups = []string{g.Name}
		e.uncounted = known
		if _, err := o.task(s); err == nil {
			list = append(list, Choice{Command: o.command(), Does: s.does(o), Verb: o.Verb, Group: g.Name, Force: o.Force, To: o.To})
			decided[o.Verb] = true
			continue
		}
		e.uncounted = false
		if _, err := o.task(s); err == nil {
			later = append(later, o.Verb)
			decided[o.Verb] = true
		}
	}
	return list, later
}

// command is the command of teleport-find for an order to one group.
func (o Order) command() string {
	words := []string{o.Verb.Command()}
	if o.Force {
		words = append(words, "--force")
	}
	if o.To != "" {
		words = append(words, "--to", o.To)
	}
	return strings.Join(append(words, shellWord(o.Groups[0])), " ")
}

// add adds the choices of a group to an outlook. If an order has to wait until hosts have had time to report, the sentence
// says so.
func (v *sight) add(o *Outlook, g *GroupStatus, verbs ...Verb) {
	list, later := v.offer(g, verbs...)
	o.Commands = append(o.Commands, list...)
	if len(later) == 0 || v.CompleteAt.IsZero() {
		return
	}
	var names []string
	for _, verb := range later {
		names = append(names, verb.Command())
	}
	o.Sentence += fmt.Sprintf(" The server takes %s from %s on, when it knows all hosts.", strings.Join(names, " and "),
		ClockFrom(v.CompleteAt))
}

// ofGroup returns all choices of a group, for a menu.
func (v *sight) ofGroup(g *GroupStatus) []Choice {
	verbs := []Verb{Retry, StartUpdate, MarkDone}
	if g.State != RolledBack {
		verbs = append(verbs, Rollback)
	}
	list, _ := v.offer(g, verbs...)
	return list
}

// does says what an order does to its group here.
func (s *step) does(o Order) string {
	target, present := s.r.Spec.TargetVersion, s.g.PresentCount
	left := max(0, present-s.g.UpToDateCount)
	switch {
	case o.Verb == Rollback:
		s.to = o.To
		to, _ := s.goesBackTo()
		if there := s.n.Versions[to]; present > 0 && there >= present {
			return fmt.Sprintf("ends it, and %s %s on %s", hosts(present), verb("stay", present), to)
		}
		return fmt.Sprintf("tells %s to go back to %s", reached(present-s.n.Versions[to], present), to)
	case o.Verb == MarkDone && s.r.within(untilClosed):
		return "ends it until its next window"
	case o.Verb == MarkDone && present > 0 && left == 0:
		return fmt.Sprintf("ends it with %s on %s%s", hosts(present), target, s.opens())
	case o.Verb == MarkDone:
		return fmt.Sprintf("ends it: tells %s to update to %s%s", reached(left, present), target, s.opens())
	case o.Verb == Retry && s.g.State == Unstarted:
		return "lets it start in its turn"
	case present > 0 && left == 0:
		return fmt.Sprintf("keeps %s on %s", hosts(present), target)
	}
	told, words, when := left, "update to "+string(target), ""
	if o.Verb == Retry {
		words = fmt.Sprintf("try %s again", target)
	}
	switch canaries := min(s.g.ConfigCanaryCount, left); {
	case canaries > 0 && !o.Force && s.r.Spec.Strategy == HaltOnError:
		told, when = canaries, " first"
	case s.g.ConfigMaxInFlight != nil:
		when = fmt.Sprintf(", %s at a time", s.g.ConfigMaxInFlight)
	}
	if o.Force {
		when += map[bool]string{true: ", without waiting for canaries", false: ", before its turn"}[s.g.State == Canarying]
	}
	return fmt.Sprintf("tells %s to %s%s", reached(told, present), words, when)
}

// opens names the groups that wait for this one.
func (s *step) opens() string {
	var names []string
	for i := range s.e.steps {
		if g := &s.r.Status.Groups[i]; g.State == Unstarted && slices.Contains(s.e.before(i), s.place) {
			names = append(names, excerpt(g.Name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ", and " + some(names) + " may start"
}

// reached are the hosts of a group that an order reaches.
func reached(n, present int) string {
	if present == 0 {
		return "its hosts, none of which reports,"
	}
	return hosts(n)
}
