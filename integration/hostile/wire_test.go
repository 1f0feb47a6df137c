//go:build hosts

package hostile

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
)

// always is a handler that does the same each time.
func always(h http.HandlerFunc) func(int64, http.ResponseWriter, *http.Request) {
	return func(_ int64, rw http.ResponseWriter, r *http.Request) { h(rw, r) }
}

// hijacked is a handler that has the connection to itself.
func hijacked(does func(conn net.Conn)) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		does(conn)
	}
}

// sends answers with these bytes and ends the connection.
func sends(text string) http.HandlerFunc {
	return hijacked(func(conn net.Conn) { io.WriteString(conn, text) })
}

// resets ends the connection as a crash does.
func resets(text string) http.HandlerFunc {
	return hijacked(func(conn net.Conn) {
		io.WriteString(conn, text)
		reset(conn)
	})
}

func reset(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if t, ok := conn.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	conn.Close()
}

// listen serves raw connections until the test ends, and returns where.
func (w *world) listen(serve func(net.Conn)) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	w.t.(interface{ Cleanup(func()) }).Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// nobody is where nobody listens, and no case's server ever will: a port that was listened on and
// given up may be the next server's.
const nobody = "127.0.0.1:1"
