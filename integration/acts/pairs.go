package acts

import (
	"regexp"
	"slices"
	"strings"
)

// stillness are acts that do nothing, or that make each run take too long, and are in no
// pair.
var stillness = []string{"nothing", "systemd is away"}

// clashes reports whether two acts cannot be done to one host: they take the same thing, or
// the undoing of one would undo the other.
func (a action) clashes(b action) bool {
	shared := func(words string) bool {
		return strings.Contains(a.scripts(), words) && strings.Contains(b.scripts(), words)
	}
	switch {
	case a.name == b.name, a.on != "" && a.on == b.on:
		return true
	case slices.Contains(stillness, a.plainName()) || slices.Contains(stillness, b.plainName()):
		return true
	case a.data != "" && b.own, b.data != "" && a.own: // whose data are elsewhere already
		return true
	case a.yesterday && b.before != "", b.yesterday && a.before != "":
		return true
	case a.stops() && b.plainName() == unstoppable, b.stops() && a.plainName() == unstoppable:
		return true // systemd refuses half of it
	case a.takesUnit() && b.startsByHand(), b.takesUnit() && a.startsByHand():
		return true // who stopped the agent has no unit to start it by
	case slices.Contains(bothLost, a.plainName()) && slices.Contains(bothLost, b.plainName()):
		return true // nothing tells any more of the change that was cut off, nor which version the agent runs
	}
	return slices.ContainsFunc([]string{"other-user", "$AWAY", "$DATA/moved", "srv-agent.mount", "/proc/mounts"}, shared)
}

// unstoppable is the act after which systemd stops no agent.
const unstoppable = "the agent may not be stopped by hand"

// bothLost are acts of which a host survives one.
var bothLost = []string{"the old version is removed", "the journal is removed"}

// takesUnit reports whether the agent's unit is not there, or says nothing, after the act.
func (a action) takesUnit() bool {
	return slices.Contains([]string{"the file of teleport.service is gone", "the file of teleport.service is emptied", "the unit folder is gone"},
		a.plainName())
}

func (a action) startsByHand() bool { return strings.Contains(a.before, startsAgain) }

var stopping = regexp.MustCompile(`systemctl (stop|restart) teleport\b`)

// stops reports whether the agent is stopped by hand as a part of the act, or of its undoing.
func (a action) stops() bool {
	return stopping.MatchString(a.scripts())
}

// all are the acts of a pair, or the act itself.
func (a action) all() []action {
	if a.parts == nil {
		return []action{a}
	}
	return a.parts
}

// scripts are all that is run for an act.
func (a action) scripts() string { return a.before + a.do + a.undo }

// plainName is what is done, whoever does it, and whenever.
func (a action) plainName() string {
	return strings.TrimPrefix(strings.TrimPrefix(a.name, byUserPrefix), beforePrefix)
}

// with is one act that is two: what is done before a transaction comes before it, and the
// rest at its moment. The second one is undone first. One that finds nothing to act on any
// more does nothing.
func (a action) with(b action) action {
	in := func(folder, script string) string {
		if script == "" {
			return ""
		}
		return "( ASIDE=$ASIDE/" + folder + "; mkdir -p -m 1777 $ASIDE; cd /\n" + script + "\n) || :\n"
	}
	return action{
		name:   a.name + " + " + b.name,
		parts:  []action{a, b},
		before: in("first", a.before) + in("second", b.before),
		do:     in("first", a.doing()) + in("second", b.doing()),
		undo:   in("second", b.undo) + in("first", a.undo),
		serves: a.serves || b.serves,
		hides:  a.hides || b.hides,
		rowsGo: a.rowsGo + b.rowsGo,
		spoils: a.spoils || b.spoils,
		live:   a.live || b.live,
		slow:   a.slow || b.slow,
		own:    a.own || b.own,
		data:   a.data + b.data,

		yesterday: a.yesterday || b.yesterday,
		elsewhere: a.elsewhere + b.elsewhere, exchanged: a.exchanged || b.exchanged,
	}
}

// doing is the action as the one who does it has it run.
func (a action) doing() string {
	switch {
	case !a.byUser:
		return a.do
	case strings.Contains(a.do, "systemd-run"):
		return "AS=--uid=agent\n" + a.do
	}
	return "setpriv --reuid=agent --regid=agent --clear-groups sh -ec '" + strings.ReplaceAll(a.do, "'", `'\''`) + "'"
}
