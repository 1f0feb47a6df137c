package acts

import (
	"fmt"
	"hash/fnv"
)

// combination is one moment of a transaction, one version and one action.
type combination struct {
	phase
	action
	to      string
	kills   bool // the updater is killed there, too
	insists bool // find wants the version again at once
	// whole: the timer's unit runs, too, and what status advises is done while the action is
	// in force.
	whole  bool
	ending *ending // instead of a transaction; nil: there is none
}

func (c combination) String() string {
	how := "goes on"
	if c.ending != nil {
		return c.ending.name + ": " + c.action.name
	}
	if c.boots {
		how = "boot"
	} else if c.kills {
		how = "killed"
	}
	return fmt.Sprintf("%s, to %s, %s: %s", c.phase.name, c.to, how, c.action.name)
}

// OneAtATime has each action happen at each moment of a transaction.
func OneAtATime() Sweep {
	return Sweep{name: "actions of others", all: combinations(), some: 24, hosts: [2]int{2, 1}}
}

// Before has each act happen before a transaction begins, which is then interrupted at
// each of its moments, or not at all.
func Before() Sweep {
	return Sweep{name: "acts before a transaction", all: beforeCombinations(), some: 24, varies: true, hosts: [2]int{3, 1}}
}

// InPairs has two acts happen to a host, each of them before the transaction or in it.
func InPairs() Sweep {
	return Sweep{name: "pairs of acts", all: pairCombinations(), some: 24, varies: true, hosts: [2]int{3, 1}}
}

// combinations are all that there are of one action: adding an action, or a phase, is one
// entry in its table.
func combinations() (all []combination) {
	for a, act := range actions() {
		for p, ph := range phases {
			for v, moments := range [][]moment{ph.healthy, ph.fails} {
				if moments == nil || ph.boots && act.live {
					continue
				}
				c := combination{phase: ph, action: act, to: healthy, kills: ph.boots || (a+p+v)%2 == 1, insists: (a+p+v)%3 == 0}
				if v == 1 {
					c.to = failing(act, 0)
				}
				all = append(all, c)
			}
		}
	}
	return all
}

// failing is a version that fails while an act is in force. One that serves is needed
// for some; else it is one or the other.
func failing(act action, n int) string {
	if act.serves || n%4 == 3 {
		return unready
	}
	return dies
}

// outcomes are what a version does, and at which moments of it a transaction is held.
var outcomes = []struct {
	version func(act action, n int) string
	moments func(ph phase) []moment
}{
	{func(action, int) string { return healthy }, func(ph phase) []moment { return ph.healthy }},
	{failing, func(ph phase) []moment { return ph.fails }},
	{func(action, int) string { return slow }, func(ph phase) []moment {
		if ph.name == "in mid-watch" || ph.name == "at boot" {
			return ph.healthy
		}
		return nil
	}},
}

// combined are an act at all moments, with all outcomes. Half of the transactions are
// killed there.
func combined(act action, a int) (all []combination) {
	for p, ph := range phases {
		for v, o := range outcomes {
			if o.moments(ph) == nil || ph.boots && act.live {
				continue
			}
			c := combination{phase: ph, action: act, to: o.version(act, a+p), whole: true}
			c.kills, c.insists = ph.boots || (a+p+v)%2 == 1, (a+p+v)%3 == 0
			all = append(all, c)
		}
	}
	return all
}

func beforeCombinations() (all []combination) {
	for a, act := range actsBefore() {
		all = append(all, combined(act, a)...)
	}
	return all
}

// partners is with how many others each act is paired; each pair has one moment.
const partners = 5

// pairCombinations pairs each act of either table with some of the others: always the same
// ones, so that a pair has one name in all runs.
func pairCombinations() (all []combination) {
	pool := append(actsBefore(), actions()...)
	had := map[string]bool{}
	for a, first := range pool {
		for found, n := 0, 0; found < partners && n < 200; n++ {
			second := pool[hash(first.name, n)%len(pool)]
			if first.clashes(second) || had[second.name+first.name] || had[first.name+second.name] {
				continue
			}
			had[first.name+second.name] = true
			moments := combined(first.with(second), a+found)
			all = append(all, moments[hash(second.name, a+found)%len(moments)])
			found++
		}
	}
	return all
}

// hash is a number that chance could have chosen, and is the same in each run.
func hash(name string, n int) int {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", name, n)
	return int(h.Sum64() >> 33)
}
