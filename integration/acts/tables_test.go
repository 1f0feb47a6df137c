//go:build hosts

package acts

import (
	"regexp"
	"slices"
	"testing"
)

// The tables say what is there: names are unlike, exceptions are of actions, and what is
// open is of combinations.
func TestTheTablesFitTogether(t *testing.T) {
	one, before, pairs, ends := OneAtATime(), Before(), InPairs(), AtTheEnd()
	if len(one.all) < 1682 || len(before.all)+len(pairs.all) < 1500 {
		t.Errorf("there are %d combinations of one action, %d of acts before, %d of pairs; want 1682 of the first and 1500 of the others", len(one.all), len(before.all), len(pairs.all))
	}
	for _, s := range []Sweep{one, before, pairs, ends} {
		if s.some < 8 {
			t.Errorf("%s: a run wants %d combinations; want 8 at least", s.name, s.some)
		}
		if first, stride := s.share(t); (len(s.all)-first+stride-1)/stride < s.some {
			t.Errorf("%s: a run has every %dth of %d combinations from the %dth on, which is less than %d", s.name, stride, len(s.all), first, s.some)
		}
	}
	var names, combined []string
	for _, a := range append(actions(), actsBefore()...) {
		if a.do == "" || a.undo == "" {
			t.Errorf("%s: no script", a.name)
		}
		names = append(names, a.name)
	}
	paired := map[string]int{}
	for _, c := range pairs.all {
		for _, part := range c.parts {
			paired[part.name]++
		}
	}
	for _, name := range names {
		if plain := (action{name: name}).plainName(); paired[name] < 2 && !slices.Contains(stillness, plain) {
			t.Errorf("%q is in %d pairs", name, paired[name])
		}
	}
	for _, c := range pairs.all {
		if slices.ContainsFunc(c.parts, func(a action) bool { return a.plainName() == unstoppable }) && slices.ContainsFunc(c.parts, action.stops) {
			t.Errorf("%v: the agent cannot be stopped by hand, and is", c)
		}
	}
	for _, c := range slices.Concat(one.all, before.all, pairs.all, ends.all) {
		combined = append(combined, c.String())
	}
	for _, list := range [][]string{names, combined} {
		slices.Sort(list)
		if n := len(list); len(slices.Compact(slices.Clone(list))) != n {
			t.Errorf("of %d names some are the same", n)
		}
	}
	for name, x := range exceptions {
		if !slices.ContainsFunc(names, func(n string) bool { return (action{name: n}).plainName() == name }) {
			t.Errorf("there is an exception for %q, which nobody does", name)
		}
		if regexp.MustCompile(x.says).MatchString("State: idle: the version that the cluster wants is active") {
			t.Errorf("%s: a host that is idle would do as a sentence about it", name)
		}
	}
	for _, o := range open {
		if !slices.ContainsFunc(combined, func(n string) bool { return regexp.MustCompile(o.name).MatchString(n) }) {
			t.Errorf("nothing is called %q, which is open", o.name)
		}
	}
	t.Logf("%d actions, %d combinations: %d of one, %d of acts before, %d of pairs, %d of ends", len(names), len(combined), len(one.all), len(before.all), len(pairs.all), len(ends.all))
}
