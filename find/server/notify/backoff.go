package notify

import (
	"math/rand/v2"
	"time"
)

const (
	firstWait = 5 * time.Second
	mostWait  = time.Hour
)

// backOff is the wait after a number of attempts: twice as long each time, from five
// seconds to an hour, of which the last half is random.
func backOff(attempts int) time.Duration {
	wait := mostWait
	if doublings := max(attempts-1, 0); doublings < 10 {
		wait = min(firstWait<<doublings, mostWait)
	}
	return wait/2 + rand.N(wait/2)
}
