package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxSpan is how long a chain of groups may take at most (RFD 0169 §Scheduling):
// in longer ones every release would meet the one before.
const maxSpan = 7 * 24 // hours

// before returns, for each group of a list, the groups that have to be done before it
// starts: the one before it or, as soon as any group requires one, the ones that it
// requires. Names that are not in the list are left out.
func before(groups []Group) [][]int {
	direct := make([][]int, len(groups))
	if !slices.ContainsFunc(groups, func(g Group) bool { return len(g.Requires) > 0 }) {
		for i := 1; i < len(groups); i++ {
			direct[i] = []int{i - 1}
		}
		return direct
	}
	places := make(map[string]int)
	for i, g := range groups {
		places[g.Name] = i
	}
	for i, g := range groups {
		for _, name := range g.Requires {
			if j, ok := places[name]; ok {
				direct[i] = append(direct[i], j)
			}
		}
	}
	return direct
}

// closure adds the indirect predecessors: a group that was marked done by hand does not
// stand for the groups before it.
func closure(direct [][]int) [][]int {
	all := make([][]int, len(direct))
	for i := range direct {
		seen := make([]bool, len(direct))
		queue := slices.Clone(direct[i])
		for len(queue) > 0 {
			j := queue[0]
			queue = queue[1:]
			if !seen[j] {
				seen[j] = true
				all[i] = append(all[i], j)
				queue = append(queue, direct[j]...)
			}
		}
		slices.Sort(all[i])
	}
	return all
}

// checkOrder refuses an order in which a group could never start, or only after too
// long.
func checkOrder(groups []Group, strategy Strategy, where func(i int) string) error {
	if strategy == TimeBased {
		return nil // groups do not know one another
	}
	names := make(map[string]bool)
	for _, g := range groups {
		names[g.Name] = true
	}
	for i, g := range groups {
		for j, name := range g.Requires {
			path := fmt.Sprintf("%s.requires[%d]", where(i), j)
			switch {
			case name == g.Name:
				return fmt.Errorf("%s: %s requires itself", path, excerpt(name))
			case !names[name]:
				return fmt.Errorf("%s: there is no group %s in this schedule", path, excerpt(name))
			case slices.Contains(g.Requires[:j], name):
				return fmt.Errorf("%s: %s appears twice", path, excerpt(name))
			}
		}
	}
	direct := before(groups)
	order, circle := topological(direct)
	if circle != nil {
		return fmt.Errorf("%s.requires: the groups require one another: %s", where(circle[0]), chainOf(groups, circle))
	}
	if s := longest(groups, direct, order); s.hours > maxSpan {
		return fmt.Errorf("%s: the chain %s can take %d hours from a release at %s to the start of the last group; more than %d, "+
			"a week, is too long",
			where(s.chain[len(s.chain)-1]), chainOf(groups, s.chain), s.hours, hourOfWeek(s.release), maxSpan)
	}
	return nil
}

// topological returns the groups in an order in which they can be done, or a circle
// of groups, which begins and ends with the same one.
func topological(direct [][]int) (order, circle []int) {
	const untouched, entered, left = 0, 1, 2
	state := make([]int, len(direct))
	var path []int
	var visit func(i int) bool
	visit = func(i int) bool {
		switch state[i] {
		case left:
			return true
		case entered:
			circle = append(slices.Clone(path[slices.Index(path, i):]), i)
			return false
		}
		state[i] = entered
		path = append(path, i)
		for _, j := range direct[i] {
			if !visit(j) {
				return false
			}
		}
		path = path[:len(path)-1]
		state[i] = left
		order = append(order, i)
		return true
	}
	for i := range direct {
		if !visit(i) {
			return nil, circle
		}
	}
	return order, nil
}

// spread is how long a schedule takes when a release appears at the worst hour.
type spread struct {
	release int   // hour of the week, from Monday 00:00 UTC
	hours   int   // to the start of the last group
	chain   []int // the groups that take so long, in their order
}

// longest tries every hour of the week. A group that starts is taken to be done by
// the end of its hour: groups that have the same hour go on successive days, since
// two of them seldom fit into one.
func longest(groups []Group, direct [][]int, order []int) (worst spread) {
	wait := make([][maxSpan]int, len(groups)) // hours until the next window
	for i, g := range groups {
		wait[i] = waits(g)
	}
	starts, from := make([]int, len(groups)), make([]int, len(groups))
	for release := range maxSpan {
		for _, i := range order {
			ready := release
			from[i] = -1
			for _, j := range direct[i] {
				if done := starts[j] + 1 + groups[i].WaitHours; done > ready || from[i] < 0 {
					ready, from[i] = max(ready, done), j
				}
			}
			starts[i] = ready + wait[i][ready%maxSpan]
			if len(direct[i]) > 0 && starts[i]-release > worst.hours {
				worst = spread{release: release, hours: starts[i] - release, chain: nil}
				for j := i; j >= 0; j = from[j] {
					worst.chain = append(worst.chain, j)
				}
				slices.Reverse(worst.chain)
			}
		}
	}
	return worst
}

// waits returns for every hour of the week how long it is until a group may start.
func waits(g Group) (wait [maxSpan]int) {
	next := 2 * maxSpan
	for h := 2*maxSpan - 1; h >= 0; h-- {
		if h%24 == *g.StartHour && allowed(g.Days, time.Weekday((h/24+1)%7)) {
			next = h
		}
		if h < maxSpan {
			wait[h] = next - h
		}
	}
	return wait
}

func hourOfWeek(hour int) string {
	return fmt.Sprintf("%s %02d:00 UTC", week[(hour/24+1)%7], hour%24)
}

// maxNamed is how many groups of a chain an error names.
const maxNamed = 8

func chainOf(groups []Group, chain []int) string {
	var names []string
	for _, i := range chain {
		names = append(names, excerpt(cmp.Or(groups[i].Name, "?")))
	}
	if len(names) > maxNamed {
		names = append(append(names[:maxNamed/2:maxNamed/2], "…"), names[len(names)-maxNamed/2:]...)
	}
	return strings.Join(names, " → ")
}
