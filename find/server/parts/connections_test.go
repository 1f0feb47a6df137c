package parts

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
)

// arrivals is a listener on which connections of made-up addresses arrive.
type arrivals chan *arrival

type arrival struct {
	net.Conn
	from   string
	closed int
}

func (a *arrival) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(a.from))
}
func (a *arrival) Close() error { a.closed++; return nil }

func (l arrivals) Accept() (net.Conn, error) {
	if len(l) == 0 {
		return nil, errors.New("nobody comes any more")
	}
	return <-l, nil
}
func (arrivals) Close() error   { return nil }
func (arrivals) Addr() net.Addr { return nil }

func TestConnectionsOfAnAddressAreBounded(t *testing.T) {
	const limit = 3
	for _, tc := range []struct {
		name string
		from func(i int) string
		kept int // of ten
	}{
		{"one address", func(i int) string { return fmt.Sprintf("192.0.2.7:%d", 1000+i) }, limit},
		{"ten addresses", func(i int) string { return fmt.Sprintf("192.0.2.%d:1000", 10+i) }, 10},
		{"one address, written as of IPv6", func(i int) string { return fmt.Sprintf("[::ffff:192.0.2.7]:%d", 1000+i) }, limit},
		{"one network of IPv6", func(i int) string { return fmt.Sprintf("[2001:db8:0:1::%d]:1000", 1+i) }, limit},
		{"ten networks of IPv6", func(i int) string { return fmt.Sprintf("[2001:db8:0:%d::1]:1000", i) }, 10},
		{"one link-local address", func(i int) string { return fmt.Sprintf("[fe80::1%%eth0]:%d", 1000+i) }, limit},
		{"a reverse proxy of this machine", func(i int) string { return fmt.Sprintf("127.0.0.1:%d", 1000+i) }, 10},
		{"the same by IPv6", func(i int) string { return fmt.Sprintf("[::1]:%d", 1000+i) }, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			arriving := make(arrivals, 20)
			bound := BoundConnections(arriving, limit, slog.New(slog.NewTextHandler(&out, nil)))
			all := make([]*arrival, 10)
			for i := range all {
				all[i] = &arrival{from: tc.from(i)}
				arriving <- all[i]
			}
			kept := acceptAll(bound)
			if len(kept) != tc.kept {
				t.Fatalf("%d of 10 connections are kept; want %d", len(kept), tc.kept)
			}
			for i, a := range all {
				if (a.closed == 0) != (i < tc.kept) {
					t.Errorf("connection %d was closed %d times", i, a.closed)
				}
			}
			if logged := strings.Contains(out.String(), "too many"); logged != (tc.kept < 10) || strings.Count(out.String(), "\n") > 1 {
				t.Errorf("the log has\n%s", out.String())
			}
			// A connection gives its place back, and once only: net/http closes some twice.
			kept[0].Close()
			kept[0].Close()
			arriving <- &arrival{from: tc.from(0)}
			arriving <- &arrival{from: tc.from(0)}
			if again := len(acceptAll(bound)); tc.kept == limit && again != 1 {
				t.Errorf("after one of %d was closed, %d more are kept; want 1", limit, again)
			}
		})
	}
}

func TestAddressesWithoutConnectionsAreForgotten(t *testing.T) {
	arriving := make(arrivals, 100)
	bound := BoundConnections(arriving, 3, slog.New(slog.DiscardHandler)).(*boundListener)
	for i := range cap(arriving) {
		arriving <- &arrival{from: fmt.Sprintf("192.0.2.%d:1000", i)}
	}
	for _, conn := range acceptAll(bound) {
		conn.Close()
	}
	if len(bound.open) != 0 {
		t.Errorf("%d addresses without a connection are remembered", len(bound.open))
	}
}

func TestNoLimitBoundsNothing(t *testing.T) {
	arriving := make(arrivals, 2000)
	bound := BoundConnections(arriving, 0, slog.New(slog.DiscardHandler))
	for range cap(arriving) {
		arriving <- &arrival{from: "192.0.2.7:1000"}
	}
	if kept := acceptAll(bound); len(kept) != cap(arriving) {
		t.Errorf("%d of %d connections are kept", len(kept), cap(arriving))
	}
}

func acceptAll(l net.Listener) (all []net.Conn) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return all
		}
		all = append(all, conn)
	}
}
