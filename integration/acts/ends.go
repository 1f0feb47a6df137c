package acts

import (
	"fmt"
	"slices"
	"time"

	"teleport-update/integration/host"
)

// ending is how the updater leaves a host.
type ending struct {
	name string
	args []string
	// updated: the version of today has changed the tables since the first enable.
	updated bool
}

var endings = []ending{
	{name: "left as plain files", args: []string{"uninstall"}},
	{name: "left as plain files, after an update", args: []string{"uninstall"}, updated: true},
}

// AtTheEnd has each act happen before the updater is uninstalled, and the host boot afterwards.
func AtTheEnd() Sweep {
	return Sweep{name: "acts before an uninstall", all: endCombinations(), some: 8, varies: true, original: true, hosts: [2]int{3, 1}}
}

func endCombinations() (all []combination) {
	for _, act := range actsBefore() {
		for e := range endings {
			if endings[e].updated && (act.yesterday || act.exchanged) {
				continue // the first updates the host itself; what the second copies is active already
			}
			all = append(all, combination{phase: phase{name: endings[e].name}, action: act, to: oldVersion, whole: true, ending: &endings[e]})
		}
	}
	return all
}

// end uninstalls the updater. An agent that ran soundly before runs afterwards, and once the act is undone and the host has booted.
// If the command fails, the host is what it was, and judged as such.
func (r *trial) end() {
	r.T.Helper()
	if err := r.prepareEnd(); err != nil {
		r.problem("%v", err)
		return
	}
	r.was = r.look()
	result := r.bounded(host.Command{Args: append([]string{updater}, r.ending.args...)})
	r.hear(fmt.Sprintf("uninstall, exit code %d, %v", result.Code, result.Took.Round(time.Millisecond)), result.Stdout+result.Stderr)
	x, excused, _ := r.excuse("")
	if r.was.soundly() && !r.look().serves() && !(excused && x.unseen) {
		r.stillServes("after the command")
	}
	if result.Code != 0 {
		r.missed = true
		r.judge(whileInForce, r.inForce)
		r.observe(whileInForce)
		r.followAdvice(whileInForce)
	}
	r.isUndone = true
	undo := r.try("", r.action.undo)
	r.hear("undo", undo.Stdout+undo.Stderr)
	if result.Code != 0 && r.look().phase != "" {
		r.tick() // which may end it
	}
	if result.Code != 0 && r.look().active != "" {
		r.judge(onceUndone, r.undone)
		r.observe(onceUndone)
		r.followAdvice(onceUndone)
		return
	}
	r.states = append(r.states, "uninstalled")
	if slices.Contains(keepDown, r.plainName()) { // those enable units of the updater's, too, which are gone
		r.try("", "systemctl --quiet unmask teleport; systemctl --quiet enable teleport")
	}
	r.Check(r.Kill())
	r.Check(r.Boot(r.T.Context()))
	r.stillServes("after the next boot")
}

// stillServes sees an agent that is sound come, soon.
func (r *trial) stillServes(when string) {
	r.T.Helper()
	s, problems := r.settled(func(s sight) []string { return append(s.runs(r.hides || r.spoils), r.keptRows(s)...) })
	for _, p := range problems {
		r.problem("%s: %s", when, p)
	}
	if problems != nil {
		r.hear("the host", fmt.Sprintf("%+v\n%s", s, r.try("", "systemctl status teleport 2>&1 | head -20; ls -l $LINKS $UNIT 2>&1; cat $UNIT 2>&1 || :").Stdout))
	}
}

// prepareEnd has the act happen, on a host that was updated before if that is asked for.
func (r *trial) prepareEnd() error {
	r.T.Helper()
	if r.ending.updated {
		if said, err := r.begin(healthy, nil, false); err != nil {
			return fmt.Errorf("the update before: %w\n%s", err, said)
		}
	}
	return r.prepare()
}
