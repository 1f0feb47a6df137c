package state

import (
	"path/filepath"
	"testing"
	"time"
)

// A host boots with a clock that is off, a run of the timer writes what it found, and the clock is set.
func TestTimesOfThisBootMoveAlongWithTheClock(t *testing.T) {
	for name, off := range map[string]time.Duration{
		"right": 0, "nine hours ahead": 9 * time.Hour, "three minutes ahead": 3 * time.Minute, "of the year of its battery": -10 * 365 * 24 * time.Hour,
	} {
		wrong := noon.Add(off)
		path := filepath.Join(t.TempDir(), "ticks.json")
		first := LoadTicks(path, "/data", "boot", Clock{wrong, time.Minute})
		first.Ended, first.Good, first.Tables = wrong.Add(-time.Minute), wrong.Add(-time.Minute), wrong.Add(-time.Minute)
		first.Unreachable = &Unreachable{Since: wrong.Add(-2 * time.Minute)}
		first.Failing = &Failing{First: wrong.Add(-2 * time.Minute), Last: wrong, NextAttempt: wrong.Add(20 * time.Minute)}
		first.Unstable = &Unstable{Since: wrong.Add(-2 * time.Minute), Last: wrong}
		first.Waiting = &Waiting{Until: wrong.Add(time.Minute)}
		if err := first.Save(path); err != nil {
			t.Fatal(err)
		}

		// Half an hour later, by a clock that is right.
		got := LoadTicks(path, "/data", "boot", Clock{noon.Add(30 * time.Minute), 31 * time.Minute})
		for what, at := range map[string]struct{ got, want time.Time }{
			"ended": {got.Ended, noon.Add(-time.Minute)}, "good": {got.Good, noon.Add(-time.Minute)},
			"tables":      {got.Tables, noon.Add(-time.Minute)},
			"unreachable": {got.Unreachable.Since, noon.Add(-2 * time.Minute)}, "first": {got.Failing.First, noon.Add(-2 * time.Minute)},
			"last": {got.Failing.Last, noon}, "next": {got.Failing.NextAttempt, noon.Add(20 * time.Minute)},
			"since": {got.Unstable.Since, noon.Add(-2 * time.Minute)}, "seen": {got.Unstable.Last, noon}, "until": {got.Waiting.Until, noon.Add(time.Minute)},
		} {
			if !at.got.Equal(at.want) {
				t.Errorf("a clock that was %s, %s: %v; want %v", name, what, at.got, at.want)
			}
		}
	}
}

// Where nobody knows when the host booted, a time that lies ahead is none, and nothing is held up by it.
func TestATimeAheadIsNotKnown(t *testing.T) {
	ahead := noon.Add(9 * time.Hour)
	path := filepath.Join(t.TempDir(), "ticks.json")
	written := Ticks{
		DataDir: "/data", BootID: "boot", Ended: ahead, Good: ahead, Unreachable: &Unreachable{Since: ahead}, Unstable: &Unstable{Since: ahead, Last: ahead},
		Failing: &Failing{First: ahead, Last: ahead, NextAttempt: ahead.Add(time.Hour)}, Waiting: &Waiting{Until: noon.Add(time.Minute)},
	}
	if err := written.Save(path); err != nil {
		t.Fatal(err)
	}
	got := LoadTicks(path, "/data", "boot", Clock{Now: noon})
	if !got.Ended.IsZero() || !got.Good.IsZero() || !got.Failing.NextAttempt.IsZero() {
		t.Errorf("ended %v, good %v, next attempt %v; want none", got.Ended, got.Good, got.Failing.NextAttempt)
	}
	if !got.Ahead().Equal(ahead) {
		t.Errorf("the latest time ahead is %v; want %v", got.Ahead(), ahead)
	}
	for _, at := range []time.Time{got.Unreachable.Since, got.Failing.First, got.Failing.Last, got.Unstable.Since, got.Unstable.Last} {
		if !at.Equal(noon) {
			t.Errorf("what is found so is so since %v; want now", at)
		}
	}
	if !got.Waiting.Until.Equal(noon.Add(time.Minute)) {
		t.Errorf("a run waits until %v", got.Waiting.Until)
	}
}
