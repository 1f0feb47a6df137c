//go:build hosts

package hostile

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// behind puts an HTTP proxy between the updater and its server.
func (w *world) behind(address string) {
	w.t.(interface{ Helper() }).Helper()
	w.env = []string{"HTTPS_PROXY=http://eve:planted-proxy@" + address}
	w.proxy = "https://" + name
	w.templates = []string{"https://ann:planted-user@" + name + mirrorPath + "?token=planted-token"}
	w.settings()
}

// connected reads the request of a client of an HTTP proxy.
func connected(conn net.Conn) bool {
	r, err := http.ReadRequest(bufio.NewReader(conn))
	return err == nil && r.Method == http.MethodConnect
}

// tunnel passes everything on to the server.
func tunnel(conn net.Conn, address string) {
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	io.WriteString(conn, ok200+"\r\n")
	over := make(chan struct{}, 2)
	go func() { io.Copy(to, conn); over <- struct{}{} }()
	go func() { io.Copy(conn, to); over <- struct{}{} }()
	<-over
}

func proxyFaults() []hostile {
	faulty := func(name, says string, serve func(w *world, conn net.Conn)) hostile {
		return hostile{name: "the HTTP proxy " + name, says: says, given: func(w *world) {
			w.behind(w.listen(func(conn net.Conn) {
				if connected(conn) {
					serve(w, conn)
				}
			}))
		}}
	}
	answers := func(name, says, text string) hostile {
		return faulty(name, says, func(_ *world, conn net.Conn) { io.WriteString(conn, text) })
	}
	refused := "the HTTP proxy http://127.0.0.1:…refused the connection to " + name + ":443: "
	cases := []hostile{
		{name: "the HTTP proxy is not there", says: "the HTTP proxy cannot be reached: …connection refused", given: func(w *world) { w.behind(nobody) }},
		{name: "the HTTP proxy passes all on", code: done, becomes: "1.1.0", given: func(w *world) {
			w.behind(w.listen(func(conn net.Conn) {
				if connected(conn) {
					tunnel(conn, w.address())
				}
			}))
		}},
		faulty("closes at once", "", func(*world, net.Conn) {}),
		faulty("resets at once", "", func(_ *world, conn net.Conn) { reset(conn) }),
		answers("asks for a password", refused+"407", "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n"),
		answers("forbids it", refused+"403", "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"),
		answers("fails", refused+"502", "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"),
		answers("redirects", refused+"302", "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/?token=planted-redirect\r\nContent-Length: 0\r\n\r\n"),
		answers("answers noise", "", "\x00\xff\x1b[2J\r\n\r\n"),
		answers("answers as another protocol", "", "SSH-2.0-OpenSSH_9.2\r\n"),
		answers("answers half", "", "HTTP/1.1 2"),
		answers("answers with an escape sequence", "", "HTTP/1.1 403 \x1b[2Jplease log in\r\nContent-Length: 0\r\n\r\n"),
		answers("agrees and closes", "", ok200+"\r\n"),
		answers("agrees and sends noise", "", ok200+"\r\n"+strings.Repeat("\x00\xff", 1000)),
		faulty("agrees and answers without TLS", "the server does not speak TLS", func(_ *world, conn net.Conn) {
			io.WriteString(conn, ok200+"\r\n")
			conn.Read(make([]byte, 1)) // the client speaks first
			io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
			wait(conn)
		}),
		faulty("has headers without end", "", func(_ *world, conn net.Conn) {
			io.WriteString(conn, ok200)
			for range 1 << 14 {
				if _, err := io.WriteString(conn, "X-Much: "+strings.Repeat("x", 1000)+"\r\n"); err != nil {
					return
				}
			}
		}),
		faulty("leads to a server of its own", "the server's certificate is not trusted", func(w *world, conn net.Conn) {
			io.WriteString(conn, ok200+"\r\n")
			c := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{fixture.server.selfSigned}})
			c.Handshake()
		}),
		{name: "the HTTP proxy's address is none", says: "", given: func(w *world) {
			w.behind(nobody)
			w.env = []string{"HTTPS_PROXY=http://eve:planted-proxy@[::1"}
		}},
		{name: "the HTTP proxy's scheme is none", says: "", given: func(w *world) {
			w.behind(nobody)
			w.env = []string{"HTTPS_PROXY=gopher://eve:planted-proxy@127.0.0.1:1"}
		}},
		{name: "the SOCKS proxy answers noise", says: "", given: func(w *world) {
			w.behind(nobody)
			w.env = []string{"HTTPS_PROXY=socks5://eve:planted-proxy@" + w.listen(func(conn net.Conn) { io.WriteString(conn, "noise") })}
		}},
	}
	return cases
}

// mirrorFaults are about more than one mirror.
func mirrorFaults() []hostile {
	second := func(name string, first func(w *world) string) hostile {
		return hostile{name: name, code: done, becomes: "1.1.0", waits: true, given: func(w *world) {
			w.templates = append([]string{first(w)}, w.templates...)
			w.settings()
		}}
	}
	elsewhere := func(serve func(conn net.Conn)) func(w *world) string {
		return func(w *world) string {
			return "https://ann:planted-user@" + w.listen(serve) + "/x-{{.Version}}?token=planted-token"
		}
	}
	return []hostile{
		second("the first mirror is down and the second serves", func(w *world) string { return "https://" + nobody + "/{{.Version}}" }),
		second("the first mirror does not have it and the second serves", func(w *world) string { return "file://" + w.outside("nothing-{{.Version}}") }),
		second("the first mirror hangs up and the second serves", elsewhere(func(conn net.Conn) { reset(conn) })),
		{name: "no mirror serves, and each is named", says: "/nothing-1.1.0…connection refused", waits: true, given: func(w *world) {
			w.templates = []string{"file://" + w.outside("nothing-{{.Version}}"), "https://" + nobody + "/{{.Version}}?token=planted-token"}
			w.settings()
		}},
		{name: "the mirrors do not agree on the checksum", says: "", waits: true, given: func(w *world) {
			w.must(os.WriteFile(w.outside("other-1.1.0.sha256"), []byte(strings.Repeat("1", 64)), 0o644))
			w.must(os.WriteFile(w.outside("other-1.1.0"), w.tarball, 0o644))
			w.templates = []string{"file://" + w.outside("other-{{.Version}}"), "https://" + nobody + "/{{.Version}}"}
			w.settings()
		}},
	}
}

// wait ends when the client gives up, or the test is over.
func wait(conn net.Conn) {
	conn.SetReadDeadline(time.Now().Add(10 * time.Minute))
	io.Copy(io.Discard, conn)
}
