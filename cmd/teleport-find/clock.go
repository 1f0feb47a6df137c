package main

import "time"

// now is the one clock of a server: windows, the age of reports and the history go by it. Nothing
// that the program is given can set it. integration/fleet builds this file as another one, for
// tests that go through days.
func now() time.Time { return time.Now() }

// ticks says when the server looks again, until it is stopped.
func ticks(every time.Duration) (<-chan time.Time, func()) {
	ticker := time.NewTicker(every)
	return ticker.C, ticker.Stop
}
