package systemd

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
)

// signalHub receives the signals of a connection. On the private socket systemd sends all signals
// to every client, so signals without a listener are dropped at once.
type signalHub struct {
	mu        sync.Mutex
	waiters   []chan<- *dbus.Signal // go-systemd's, for the results of jobs
	listeners map[*Listener]bool
}

const (
	jobNew     = "org.freedesktop.systemd1.Manager.JobNew"
	jobRemoved = "org.freedesktop.systemd1.Manager.JobRemoved"
	changed    = "org.freedesktop.DBus.Properties.PropertiesChanged"
)

// DeliverSignal is called for each signal, in their order.
func (h *signalHub) DeliverSignal(_, _ string, signal *dbus.Signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if signal.Name == jobRemoved {
		for _, c := range h.waiters {
			c <- signal
		}
	}
	for l := range h.listeners {
		l.hear(signal)
	}
}

// AddSignal is go-systemd's way to ask for signals; go-systemd always drains the channel.
func (h *signalHub) AddSignal(c chan<- *dbus.Signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters = append(h.waiters, c)
}

// RemoveSignal undoes AddSignal.
func (h *signalHub) RemoveSignal(c chan<- *dbus.Signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters = slices.DeleteFunc(h.waiters, func(w chan<- *dbus.Signal) bool { return w == c })
}

// Terminate is called when the connection ends, and ends go-systemd's loop.
func (h *signalHub) Terminate() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.waiters {
		close(c)
	}
	h.waiters = nil
}

// A Listener notices that something happens to a unit. Mostly that only shortens the pause between
// two looks at the unit, but a job that comes and goes in the pause is known by its signals alone.
type Listener struct {
	conn *Conn
	unit string
	path dbus.ObjectPath
	hub  *signalHub // of the connection in use

	wake chan struct{} // has a value when something happened
	mu   sync.Mutex
	jobs map[uint32]bool // seen on the unit
	own  uint32          // this job and those before it are of no interest
}

// Listen returns a listener, which receives signals after Follow. Close ends it.
func (c *Conn) Listen(unit string) *Listener {
	return &Listener{conn: c, unit: unit, path: unitPath(unit), wake: make(chan struct{}, 1), jobs: map[uint32]bool{}}
}

// Follow begins to listen, and switches to the new connection if the old one broke.
func (l *Listener) Follow(ctx context.Context) error {
	hub, err := do(ctx, l.conn, func(_ context.Context, link *link) (*signalHub, error) { return link.hub, nil })
	if err != nil || hub == l.hub {
		return err
	}
	l.Close()
	l.hub = hub
	hub.mu.Lock()
	defer hub.mu.Unlock()
	hub.listeners[l] = true
	return nil
}

// Close ends the listening.
func (l *Listener) Close() {
	if l.hub != nil {
		l.hub.mu.Lock()
		defer l.hub.mu.Unlock()
		delete(l.hub.listeners, l)
	}
}

func (l *Listener) hear(signal *dbus.Signal) {
	switch signal.Name {
	case changed:
		if signal.Path != l.path {
			return
		}
	case jobNew, jobRemoved:
		if len(signal.Body) < 3 || signal.Body[2] != l.unit {
			return
		}
		if id, ok := signal.Body[0].(uint32); ok {
			l.SawJob(id)
		}
	default:
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// SawJob notes a job that was found in the state of the unit.
func (l *Listener) SawJob(id uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs[id] = true
}

// IgnoreUntil marks our own job: it and all jobs before it are of no interest. systemd numbers
// jobs as they come.
func (l *Listener) IgnoreUntil(own uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own = own
}

// CatchUp returns when the listener has received all earlier signals. Signals come on a connection
// of their own, so a state that was read may be ahead of them. On that connection, systemd's
// answer to a ping comes after all signals that it sent before.
func (l *Listener) CatchUp(ctx context.Context) error {
	_, err := do(ctx, l.conn, func(ctx context.Context, link *link) (struct{}, error) {
		return struct{}{}, link.signals.Object("org.freedesktop.systemd1", managerPath).CallWithContext(ctx, "org.freedesktop.DBus.Peer.Ping",
			0).Err
	})
	return err
}

// OtherJobs counts the jobs seen, except our own.
func (l *Listener) OtherJobs(own uint32) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := 0
	for id := range l.jobs {
		if id != own && id > l.own {
			count++
		}
	}
	return count
}

// Wait returns after the pause, or as soon as something happens to the unit, but not at once: a
// unit may report its status to systemd all the time.
func (l *Listener) Wait(ctx context.Context, pause time.Duration) {
	const least = 5 * time.Millisecond
	sleep(ctx, nil, least)
	sleep(ctx, l.wake, pause-least)
}

func sleep(ctx context.Context, wake <-chan struct{}, pause time.Duration) {
	select {
	case <-wake:
	case <-time.After(pause):
	case <-ctx.Done():
	}
}
