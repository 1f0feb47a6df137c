package page

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxAttempts is how many attempts of one address to sign in may fail in a minute. A token has 130 random bits: the bound
	// keeps the log and the processor, and not the token.
	maxAttempts = 10
	// maxAddresses bounds what is kept of them. When it is reached, everybody waits for the minute to end.
	maxAddresses = 10_000
)

// attempts are those to sign in that failed in the minute that runs.
type attempts struct {
	clock func() time.Time

	mu     sync.Mutex
	minute time.Time
	from   map[netip.Prefix]int
}

// take counts an attempt before it is looked at, so that many at once are bounded, too. It returns how long the address has to
// wait instead; 0 if it may try now.
func (a *attempts) take(from netip.Prefix) (wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.turn()
	if a.from[from] < maxAttempts && len(a.from) < maxAddresses {
		a.from[from]++
		return 0
	}
	return a.minute.Add(time.Minute).Sub(now)
}

// succeeded takes back an attempt that did not fail.
func (a *attempts) succeeded(from netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.turn(); a.from[from] > 1 {
		a.from[from]--
	} else {
		delete(a.from, from)
	}
}

// turn begins a new minute if the last one is over.
func (a *attempts) turn() (now time.Time) {
	now = a.clock()
	if minute := now.Truncate(time.Minute); !minute.Equal(a.minute) || a.from == nil {
		a.minute, a.from = minute, make(map[netip.Prefix]int)
	}
	return now
}

// addressOf is who makes a request, for a bound: an IPv6 network of 64 bits is one machine's.
func addressOf(r *http.Request) netip.Prefix {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	addr = addr.Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	prefix, _ := addr.Prefix(bits)
	return prefix
}
