package inventory

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// bodyTime is how long a report may take to arrive, once its header is there.
	bodyTime = 2 * time.Second
	// arrivingAtOnce is how many reports of one address may be on their way at once. The next one ends the
	// wait for the oldest: a client that sends headers without bodies takes places only from others that do
	// the same.
	arrivingAtOnce = 64
)

// arriving holds the requests with a header and no body yet, by address. Nobody has checked their secrets, so
// they take none of the places of reports in progress.
type arriving struct {
	mu     sync.Mutex
	bodies map[netip.Addr][]*http.ResponseController // the oldest first
}

// begin notes that a report of an address is on its way. Its result ends that.
func (a *arriving) begin(w http.ResponseWriter, remote string) (end func()) {
	body, from := http.NewResponseController(w), addressOf(remote)
	body.SetReadDeadline(time.Now().Add(bodyTime))
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bodies == nil {
		a.bodies = make(map[netip.Addr][]*http.ResponseController)
	}
	waiting := a.bodies[from]
	if len(waiting) >= arrivingAtOnce {
		waiting[0].SetReadDeadline(time.Now())
		waiting = waiting[1:]
	}
	a.bodies[from] = append(waiting, body)
	return func() { a.end(from, body) }
}

func (a *arriving) end(from netip.Addr, body *http.ResponseController) {
	a.mu.Lock()
	defer a.mu.Unlock()
	waiting := a.bodies[from]
	for i, one := range waiting {
		if one == body {
			waiting = append(waiting[:i:i], waiting[i+1:]...)
			break
		}
	}
	if len(waiting) == 0 {
		delete(a.bodies, from)
		return
	}
	a.bodies[from] = waiting
}

// addressOf returns the address of a client. An owner of IPv6 addresses has at least 2^64 of them, and all of these
// count as one.
func addressOf(remote string) netip.Addr {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	address = address.Unmap().WithZone("")
	if network, err := address.Prefix(64); err == nil && address.Is6() {
		return network.Addr()
	}
	return address
}
