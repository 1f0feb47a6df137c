package server

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// sweepEvery is how often connections are looked at for deadlines that are over, and so how
// much longer one may take.
const sweepEvery = time.Second

// sweptListener has connections that write down their deadlines, of which a sweep makes those true
// that are over. net/http sets five deadlines for each question, and nearly none is ever over:
// to set and clear a timer for each of them takes 10 % of an answer.
type sweptListener struct {
	net.Listener
	began time.Time // deadlines count from there, by the monotonic clock
	mu    sync.Mutex
	conns map[*sweptConn]struct{}
}

func newSweptListener(l net.Listener) *sweptListener {
	return &sweptListener{Listener: l, began: time.Now(), conns: make(map[*sweptConn]struct{})}
}

// Accept returns a connection of any other kind than TCP as it is.
func (l *sweptListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	tcp, ok := conn.(*net.TCPConn)
	if err != nil || !ok {
		return conn, err
	}
	c := &sweptConn{TCPConn: tcp, listener: l}
	c.read.set, c.write.set = tcp.SetReadDeadline, tcp.SetWriteDeadline
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = struct{}{}
	return c, nil
}

// sweepUntil sweeps until done is closed.
func (l *sweptListener) sweepUntil(done <-chan struct{}) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case now := <-ticker.C:
			l.sweep(now)
		}
	}
}

func (l *sweptListener) sweep(now time.Time) {
	after := now.Sub(l.began)
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.read.expire(after)
		c.write.expire(after)
	}
}

// sweptConn is a TCP connection as it is, sendfile(2) included, but for its deadlines.
type sweptConn struct {
	*net.TCPConn
	listener    *sweptListener
	read, write deadline
}

func (c *sweptConn) SetReadDeadline(t time.Time) error  { return c.read.be(t, c.listener.began) }
func (c *sweptConn) SetWriteDeadline(t time.Time) error { return c.write.be(t, c.listener.began) }

func (c *sweptConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

func (c *sweptConn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.conns, c)
	c.listener.mu.Unlock()
	return c.TCPConn.Close()
}

// deadline is that of reads or of writes.
type deadline struct {
	at   atomic.Int64 // after the listener began; 0: there is none
	set  func(time.Time) error
	over atomic.Bool // the connection has been told one that is over, and no other since
	mu   sync.Mutex  // held while over changes, and what the connection is told
}

// longAgo is what a connection is told of a deadline that is over.
var longAgo = time.Unix(1, 0)

func (d *deadline) be(t, began time.Time) error {
	after := int64(0)
	if !t.IsZero() {
		after = int64(t.Sub(began))
	}
	// net/http wakes its own reader with a deadline that was over long ago.
	over := after < 0
	d.at.Store(max(after, 0))
	if !over && !d.over.Load() {
		return nil
	}
	d.mu.Lock()
	d.over.Store(over)
	if !over {
		t = time.Time{}
	}
	err := d.set(t)
	d.mu.Unlock()
	return err
}

// expire does not hit a deadline that is set anew meanwhile: be sees that it is over, or it
// sees what be wrote.
func (d *deadline) expire(after time.Duration) {
	if at := d.at.Load(); at == 0 || at > int64(after) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.over.Swap(true)
	if at := d.at.Load(); at == 0 || at > int64(after) {
		d.over.Store(was)
		return
	}
	_ = d.set(longAgo) // of a connection that was closed
}
