package main

import (
	"os"
	"runtime"
	"testing"

	"teleport-update/installer/transaction"
)

// The timer's unit has a run begin with one processor; what it starts, and what a person
// asked for, is another matter.
func TestARunOfTheTimerTakesAllProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	runtime.SetDefaultGOMAXPROCS()
	all := runtime.GOMAXPROCS(0)
	for _, tc := range []struct {
		scheduled, given, left string
		takes                  bool
	}{
		{"1", "1", "", true},
		{"", "1", "1", false},
		{"1", "3", "3", false},
	} {
		t.Setenv(transaction.ScheduledVariable, tc.scheduled)
		t.Setenv(processors, tc.given)
		runtime.GOMAXPROCS(1)
		takeProcessors()
		want := 1
		if tc.takes {
			want = all
		}
		if got := runtime.GOMAXPROCS(0); got != want || os.Getenv(processors) != tc.left {
			t.Errorf("scheduled %q, %s=%s: %d processors, %q is left to children; want %d, %q", tc.scheduled, processors, tc.given, got, os.Getenv(processors), want, tc.left)
		}
	}
}
