package rollout

import (
	"fmt"
	"strings"
)

// forced is start-update with its flag.
const forced = string(StartUpdate) + " --force"

// offer adds commands for a group that the server would carry out now. If start-update
// is offered with and without --force, the first that is not refused is enough.
// What has to wait until hosts have had time to report is said in the sentence.
func (v *sight) offer(o *Outlook, g *GroupStatus, commands ...string) {
	var later []string
	started := false
	for _, command := range commands {
		verb, _, force := strings.Cut(command, " --force")
		if Verb(verb) == StartUpdate && started {
			continue
		}
		order := Order{Verb: Verb(verb), Groups: []string{g.Name}, Force: force}
		switch {
		case !v.refuses(order, v.Counts):
			o.Commands = append(o.Commands, command+" "+shellWord(g.Name))
			started = started || order.Verb == StartUpdate
		case !v.Counts.Complete && !v.refuses(order, v.whenComplete()):
			later = append(later, verb)
		}
	}
	if len(later) > 0 && !v.CompleteAt.IsZero() {
		o.Sentence += fmt.Sprintf(" The server takes %s from %s on, when it knows all hosts.", strings.Join(later, " and "), Clock(v.CompleteAt))
	}
}

// whenComplete is the counts as if they were complete.
func (v *sight) whenComplete() Counts {
	n := v.Counts
	n.Complete = true
	return n
}

// refuses reports whether an order would not be carried out.
func (v *sight) refuses(o Order, n Counts) bool {
	e := newEngine(v.Rollout, n, moment(v.Now))
	e.refresh()
	_, err := o.tasks(e)
	return err != nil
}
