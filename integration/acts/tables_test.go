//go:build hosts

package others

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The tables say what is there: names are unlike, exceptions are of actions, and what is
// open is of combinations.
func TestTheTablesFitTogether(t *testing.T) {
	all := combinations()
	if len(all) < 600 || len(all)/part < 60 {
		t.Errorf("there are %d combinations, %d of them in every run; want 600 and 60", len(all), len(all)/part)
	}
	var names, combined []string
	for _, a := range actions() {
		if a.do == "" || a.undo == "" {
			t.Errorf("%s: no script", a.name)
		}
		names = append(names, a.name)
	}
	for _, c := range all {
		combined = append(combined, c.String())
	}
	for _, list := range [][]string{names, combined} {
		slices.Sort(list)
		if n := len(list); len(slices.Compact(slices.Clone(list))) != n {
			t.Errorf("of %d names some are the same", n)
		}
	}
	for name, x := range exceptions {
		if !slices.ContainsFunc(names, func(n string) bool { return strings.TrimPrefix(n, byUserPrefix) == name }) {
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
	t.Logf("%d actions, %d combinations", len(names), len(all))
}
