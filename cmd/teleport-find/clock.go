package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// now is the one clock of a server: windows, the age of reports and the history go by it. Nothing
// that the program is given can set it. integration/fleet builds this file as another one, for
// tests that go through days.
func now() time.Time { return time.Now() }

// elapsed is for how long the machine is there, suspended or not. Nobody can set it.
func elapsed() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // Linux has had it since 2.6.39
	}
	return time.Duration(t.Nano())
}

// ticks says when the server looks again, until it is stopped.
func ticks(every time.Duration) (<-chan time.Time, func()) {
	ticker := time.NewTicker(every)
	return ticker.C, ticker.Stop
}
