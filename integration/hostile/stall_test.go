//go:build hosts

package hostile

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Servers that stop in the middle. The updater's limits are those of the shipped
// program: ten seconds to connect and for a handshake, thirty for headers, and
// for thirty kilobytes. So these cases wait, side by side. A download is tried
// five times; here the server gives in after the first, and in the whole campaign
// it does not.

// full makes an address whose queue of connections is full, so that one more is
// neither taken nor refused.
func (w *world) queueFull() (address string) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	w.must(err)
	cleanup := w.t.(interface{ Cleanup(func()) }).Cleanup
	cleanup(func() { unix.Close(fd) })
	w.must(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	w.must(unix.Listen(fd, 0))
	name, err := unix.Getsockname(fd)
	w.must(err)
	address = fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
	for range 4 {
		conn, err := net.DialTimeout("tcp", address, 2*time.Second)
		if err != nil {
			return address
		}
		cleanup(func() { conn.Close() })
	}
	w.t.Fatal("the queue of connections does not fill")
	return ""
}

func stallCases() []hostile {
	var cases []hostile
	add := func(c hostile) {
		c.waits = true
		if c.patience == 0 {
			c.patience = 90 * time.Second
		}
		cases = append(cases, c)
	}
	stalls := hijacked(wait)
	body := func(text string) http.HandlerFunc {
		return hijacked(func(conn net.Conn) {
			io.WriteString(conn, ok200+"Content-Length: 100000\r\n\r\n"+text)
			wait(conn)
		})
	}
	drip := func(every time.Duration) http.HandlerFunc {
		return hijacked(func(conn net.Conn) {
			io.WriteString(conn, ok200+"Content-Length: 10000000\r\n\r\n")
			for {
				if _, err := io.WriteString(conn, "{"); err != nil {
					return
				}
				time.Sleep(every)
			}
		})
	}
	headers := hijacked(func(conn net.Conn) {
		io.WriteString(conn, ok200)
		for {
			if _, err := io.WriteString(conn, "X-Slow: x\r\n"); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	})
	ways := []struct {
		name string
		does http.HandlerFunc
	}{
		{"stalls before its headers", stalls},
		{"sends its headers a line a second", headers},
		{"stalls before its body", body("")},
		{"stalls in its body", body("{\"server_edition\":")},
		{"sends a byte a second", drip(time.Second)},
		{"sends ten bytes a second", drip(100 * time.Millisecond)},
	}
	for _, way := range ways {
		add(hostile{name: "find " + way.name, says: "30s", serves: func(w *world) { w.find = way.does }})
		for _, s := range stages[1:] {
			add(hostile{name: s.name + " " + way.name + ", once", says: "404 Not Found", serves: func(w *world) {
				s.on(w, func(n int64, rw http.ResponseWriter, r *http.Request) {
					if n == 1 {
						way.does(rw, r)
						return
					}
					http.NotFound(rw, r)
				})
			}})
			add(hostile{name: s.name + " " + way.name + ", each time", patience: 6 * time.Minute, long: true, serves: func(w *world) { s.on(w, always(way.does)) }})
		}
	}
	handshake := func(conn net.Conn) { wait(conn) }
	proxy := func(name string, serve func(conn net.Conn)) {
		add(hostile{name: "the HTTP proxy " + name, given: func(w *world) { w.behind(w.listen(serve)) }})
	}
	add(hostile{name: "find takes no connection", says: "within 10s", given: func(w *world) { w.proxy = "https://" + w.queueFull(); w.settings() }})
	add(hostile{name: "find stalls in the handshake", says: "the TLS handshake took longer than 10s", given: func(w *world) { w.proxy = "https://" + w.listen(handshake); w.settings() }})
	add(hostile{name: "find stalls after half a handshake", given: func(w *world) {
		w.proxy = "https://" + w.listen(func(conn net.Conn) { io.WriteString(conn, "\x16\x03\x03\x00\x7a\x02"); wait(conn) })
		w.settings()
	}})
	add(hostile{name: "the mirror takes no connection and the next one serves", code: done, becomes: "1.1.0", patience: 3 * time.Minute, given: func(w *world) {
		w.templates = append([]string{"https://" + w.queueFull() + "/{{.Version}}"}, w.templates...)
		w.settings()
	}})
	add(hostile{name: "the mirror stalls in the handshake and the next one serves", code: done, becomes: "1.1.0", patience: 3 * time.Minute, given: func(w *world) {
		var n atomic.Int64
		w.templates = append([]string{"https://" + w.listen(func(conn net.Conn) {
			if n.Add(1) == 1 {
				handshake(conn)
			}
		}) + "/{{.Version}}"}, w.templates...)
		w.settings()
	}})
	proxy("takes no request", func(conn net.Conn) { wait(conn) })
	proxy("stalls before its answer", func(conn net.Conn) {
		if connected(conn) {
			wait(conn)
		}
	})
	proxy("stalls in its answer", func(conn net.Conn) {
		if connected(conn) {
			io.WriteString(conn, "HTTP/1.1 20")
			wait(conn)
		}
	})
	proxy("agrees and stalls", func(conn net.Conn) {
		if connected(conn) {
			io.WriteString(conn, ok200+"\r\n")
			wait(conn)
		}
	})
	add(hostile{name: "the tarball stalls in its middle, and the rest comes", code: done, becomes: "1.1.0", serves: func(w *world) {
		w.tarball = gz(archive(append(release("1.1.0"), file("teleport/more", strings.Repeat("more", 100000)))...))
		stages[2].on(w, func(n int64, rw http.ResponseWriter, r *http.Request) {
			if n > 1 {
				w.serveFiles(rw, r)
				return
			}
			hijacked(func(conn net.Conn) {
				fmt.Fprintf(conn, ok200+"ETag: \"%s\"\r\nContent-Length: %d\r\n\r\n", digestOf(w.tarball), len(w.tarball))
				conn.Write(w.tarball[:len(w.tarball)/2])
				wait(conn)
			})(rw, r)
		})
	}})
	return cases
}
