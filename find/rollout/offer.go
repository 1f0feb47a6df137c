package rollout

import (
	"fmt"
	"strings"
)

// Orders with their flags.
const (
	forced     = string(StartUpdate) + " --force"
	toPrevious = string(Rollback) + " --to " + BackToPrevious
)

// orderOf is the order of a verb and its flags for a group.
func orderOf(command, group string) Order {
	verb, flags, _ := strings.Cut(command, " ")
	to, _ := strings.CutPrefix(flags, "--to ")
	if to == flags {
		to = ""
	}
	return Order{Verb: Verb(verb), Groups: []string{group}, Force: flags == "--force", To: to}
}

// offer adds commands for a group that the server would carry out now. Of commands with
// one verb, it adds the first that is not refused. If a command has to wait until hosts
// have had time to report, the sentence says so.
func (v *sight) offer(o *Outlook, g *GroupStatus, commands ...string) {
	var later []string
	offered := make(map[Verb]bool)
	for _, command := range commands {
		order := orderOf(command, g.Name)
		switch {
		case offered[order.Verb]:
		case !v.refuses(order, v.Counts):
			o.Commands = append(o.Commands, "rollout "+command+" "+shellWord(g.Name))
			offered[order.Verb] = true
		case !v.Counts.Complete && !v.refuses(order, v.whenComplete()):
			later = append(later, order.Verb.Command())
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
