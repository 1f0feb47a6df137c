package parts

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
)

// MaxConnections is the default limit for the connections of one address. It is more
// than the hosts behind one address that ask at the same time, and few compared to a
// server's descriptors (LimitNOFILE of the unit).
const MaxConnections = 1000

// BoundConnections returns a listener that closes a new connection if its address has
// limit connections already; a limit of 0 bounds nothing. An IPv6 address counts with
// its network of 64 bits, which one machine has for itself. Loopback addresses are not
// bounded: a reverse proxy on this machine connects for all hosts.
func BoundConnections(listener net.Listener, limit int, log *slog.Logger) net.Listener {
	if limit <= 0 {
		return listener
	}
	return &boundListener{Listener: listener, limit: limit, open: make(map[netip.Prefix]int), log: Rare(log)}
}

type boundListener struct {
	net.Listener
	limit int
	log   *slog.Logger

	mu   sync.Mutex
	open map[netip.Prefix]int // no address without an open connection
}

// Accept implements net.Listener.
func (l *boundListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, bounded := counted(conn.RemoteAddr())
		if !bounded {
			return conn, nil
		}
		if l.take(from) {
			return &boundConn{Conn: conn, release: sync.OnceFunc(func() { l.release(from) })}, nil
		}
		conn.Close()
		l.log.Warn("closed a connection: its address has too many; --connections-per-address sets how many", "from", from)
	}
}

func (l *boundListener) take(from netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[from] >= l.limit {
		return false
	}
	l.open[from]++
	return true
}

func (l *boundListener) release(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[from]--; l.open[from] == 0 {
		delete(l.open, from)
	}
}

type boundConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn; it may be called more than once.
func (c *boundConn) Close() error {
	c.release()
	return c.Conn.Close()
}

// counted returns the prefix for which a connection counts, and whether it counts at all.
func counted(remote net.Addr) (netip.Prefix, bool) {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}, false
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	if !addr.IsValid() || addr.IsLoopback() {
		return netip.Prefix{}, false
	}
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	prefix, err := addr.Prefix(bits)
	return prefix, err == nil
}
