package sample

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

var began = time.Unix(1_700_000_000, 0)

func TestASampleIsCutShortOnASlowMachineAlone(t *testing.T) {
	for _, tc := range []struct {
		name  string
		each  time.Duration // that a case takes
		env   map[string]string
		cases int
		taken int
		cut   string
	}{
		{"a quick machine", time.Second, nil, 60, 60, ""},
		{"the last case begins within the budget", 4 * time.Second, nil, 60, 60, ""},
		{"a slow machine", 10 * time.Second, nil, 60, 24, ", a slow machine: 24 of 60"},
		{"a machine on which each case takes the budget", 4 * time.Minute, nil, 60, Least, ", a slow machine: 8 of 60"},
		{"a slow machine, and no more cases than the least", time.Hour, nil, Least, Least, ""},
		{"a slow machine, and fewer cases than the least", time.Hour, nil, 3, 3, ""},
		{"time for all samples ends within the budget", time.Second, until(30 * time.Second), 60, 30, ", a slow machine: 30 of 60"},
		{"time for all samples ends after the budget", 10 * time.Second, until(time.Hour), 60, 24, ", a slow machine: 24 of 60"},
		{"time for all samples is over", time.Second, until(-time.Hour), 60, Least, ", a slow machine: 8 of 60"},
		{"FAULTS=all", time.Hour, map[string]string{"FAULTS": "all", Until: "1"}, 60, 60, ""},
		{"FAULTS_POINTS", time.Hour, map[string]string{"FAULTS_POINTS": "0-59", Until: "1"}, 60, 60, ""},
		{"OTHERS", time.Hour, map[string]string{"OTHERS": "in mid-watch", Until: "1"}, 60, 60, ""},
		{"another value of FAULTS", 10 * time.Second, map[string]string{"FAULTS": "some"}, 60, 24, ", a slow machine: 24 of 60"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			clock := began
			s := within(4*time.Minute, func() time.Time { return clock }, func(name string) string { return tc.env[name] })
			s.Among(tc.cases)
			if late := tc.taken == Least && tc.each == time.Second; s.Late() != late {
				t.Errorf("it is late at its begin: %t; want %t", !late, late)
			}
			taken := 0
			for taken < tc.cases && s.Next() {
				taken++
				clock = clock.Add(tc.each)
			}
			if taken != tc.taken {
				t.Errorf("%d cases were taken; want %d", taken, tc.taken)
			}
			if got := s.Cut(); got != tc.cut || IsCut(got) != (tc.cut != "") {
				t.Errorf("Cut says %q; want %q", got, tc.cut)
			}
			if over := tc.cut != ""; taken < tc.cases && s.Over() != over {
				t.Errorf("it is over: %t; want %t", !over, over)
			}
		})
	}
}

func until(after time.Duration) map[string]string {
	return map[string]string{Until: fmt.Sprint(began.Add(after).Unix())}
}

func TestOverLeavesOutWhatIsNotPrepared(t *testing.T) {
	clock := began
	s := within(time.Minute, func() time.Time { return clock }, func(string) string { return "" })
	s.Among(Least)
	for range Least {
		if s.Over() || !s.Next() {
			t.Fatal("it is over before the least was taken")
		}
		clock = clock.Add(time.Hour)
	}
	if got := s.Cut(); got != "" {
		t.Errorf("Cut says %q before any case was left out", got)
	}
	if !s.Over() {
		t.Error("it is not over")
	}
	if got, want := s.Cut(), ", a slow machine: 8 of 8"; got != want {
		t.Errorf("Cut says %q; want %q", got, want)
	}
}

func TestEachBeginningOfASpreadListIsOfTheWholeList(t *testing.T) {
	for n := range 400 {
		var list []int
		for i := range n {
			list = append(list, i)
		}
		spread := Spread(list)
		if n > 0 && spread[0] != 0 {
			t.Fatalf("of %d, the first is %d", n, spread[0])
		}
		if n >= 40 {
			// Eight of them, sorted, have no gap of half the list.
			some := slices.Sorted(slices.Values(spread[:Least]))
			for i, at := range append(some[1:], n) {
				if at-some[i] > n/2 {
					t.Errorf("of %d, nothing of the first eight is between %d and %d", n, some[i], at)
				}
			}
		}
		slices.Sort(spread)
		if !slices.Equal(spread, list) {
			t.Fatalf("of %d, the spread list has %v", n, spread)
		}
	}
}
