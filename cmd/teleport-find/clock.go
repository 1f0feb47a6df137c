package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// now is the one clock of a server, for windows, the age of reports and the history. No input of
// the program sets it. integration/fleet replaces this file when it builds, for tests that go
// through days.
func now() time.Time { return time.Now() }

// elapsed is the time since the machine's boot, with suspended time. Nobody can set it.
func elapsed() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // Linux has had it since 2.6.39
	}
	return time.Duration(t.Nano())
}

// ticks returns a channel for the server's looks, and a function that stops it.
func ticks(every time.Duration) (<-chan time.Time, func()) {
	ticker := time.NewTicker(every)
	return ticker.C, ticker.Stop
}
