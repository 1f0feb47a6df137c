package state

import "time"

// Clock is the time of the clock, and the time since the boot, which shows whether somebody set the clock. The zero Clock is unknown.
type Clock struct {
	Now time.Time
	Up  time.Duration // since the boot, also while the host slept; zero: not known
}

// clockSlack is how much times may disagree although nobody set the clock: they are written in
// whole seconds.
const clockSlack = 2 * time.Second

// follow moves the times of this boot along with a clock that was set since they were written: one that a
// host got with the boot may be off by years, and a time that lies ahead would hide later ones. A time
// that lies ahead all the same is dropped: nobody knows that a run ended well then.
func (t *Ticks) follow(c Clock) {
	if c.Now.IsZero() {
		return
	}
	t.asWritten = t.latest()
	if c.Up > 0 {
		booted := c.Now.Add(-c.Up).UTC().Round(time.Second)
		if moved := booted.Sub(t.Booted); !t.Booted.IsZero() && moved.Abs() > clockSlack {
			t.move(moved)
		}
		t.Booted = booted
	}
	latest := c.Now.Add(clockSlack)
	for _, at := range []*time.Time{&t.Ended, &t.Good, &t.Over, &t.Tables} {
		if at.After(latest) {
			t.ahead = later(t.ahead, *at)
			*at = time.Time{}
		}
	}
	if f := t.Failing; f != nil && f.Last.After(latest) {
		f.NextAttempt = time.Time{} // it is as far ahead
	}
	for _, at := range t.findings() {
		if at.After(latest) {
			*at = c.Now.UTC().Truncate(time.Second)
		}
	}
}

// findings returns the times at which runs found something that is still so.
func (t *Ticks) findings() (all []*time.Time) {
	if u := t.Unreachable; u != nil {
		all = append(all, &u.Since)
	}
	if f := t.Failing; f != nil {
		all = append(all, &f.First, &f.Last)
	}
	if u := t.Unstable; u != nil {
		all = append(all, &u.Since, &u.Last)
	}
	return all
}

// move moves all times that are known.
func (t *Ticks) move(by time.Duration) {
	all := append(t.findings(), &t.Ended, &t.Good, &t.Over, &t.Tables)
	if t.Failing != nil {
		all = append(all, &t.Failing.NextAttempt)
	}
	if t.Waiting != nil {
		all = append(all, &t.Waiting.Until)
	}
	for _, at := range all {
		if !at.IsZero() {
			*at = at.Add(by)
		}
	}
}
