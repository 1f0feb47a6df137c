//go:build hosts

package hostile

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// stage is one of the three things that are asked for.
type stage struct {
	name string
	// on puts a handler in the place of the sound one; n counts requests from 1.
	on func(w *world, handler func(n int64, rw http.ResponseWriter, r *http.Request))
}

var stages = []stage{
	{"find", func(w *world, h func(int64, http.ResponseWriter, *http.Request)) {
		var n atomic.Int64
		w.find = func(rw http.ResponseWriter, r *http.Request) { h(n.Add(1), rw, r) }
	}},
	{"the checksum", func(w *world, h func(int64, http.ResponseWriter, *http.Request)) {
		var n atomic.Int64
		w.files = func(rw http.ResponseWriter, r *http.Request) {
			if isChecksum(r) {
				h(n.Add(1), rw, r)
			} else {
				w.serveFiles(rw, r)
			}
		}
	}},
	{"the tarball", func(w *world, h func(int64, http.ResponseWriter, *http.Request)) {
		var n atomic.Int64
		w.files = func(rw http.ResponseWriter, r *http.Request) {
			if !isChecksum(r) {
				h(n.Add(1), rw, r)
			} else {
				w.serveFiles(rw, r)
			}
		}
	}},
}

const ok200 = "HTTP/1.1 200 OK\r\n"

func networkCases() []hostile {
	return slices.Concat(answerFaults(), rangeFaults(), tlsFaults(), proxyFaults(), mirrorFaults())
}

// answerFaults are answers that break HTTP, at each stage.
func answerFaults() []hostile {
	var cases []hostile
	for _, s := range stages {
		fault := func(name string, h http.HandlerFunc) {
			// Where another try may help, the updater makes some, with pauses.
			cases = append(cases, hostile{name: s.name + " " + name, waits: true, serves: func(w *world) { s.on(w, always(h)) }})
		}
		fault("is reset before an answer", resets(""))
		fault("is reset in the middle of the status", resets("HTTP/1.1 20"))
		fault("is reset in the middle of the body", resets(ok200+"Content-Length: 4096\r\n\r\n{\"server_edition\""))
		fault("is closed before an answer", sends(""))
		fault("is closed in the middle of the headers", sends(ok200+"Content-Le"))
		fault("is shorter than announced", sends(ok200+"Content-Length: 4096\r\n\r\n{}"))
		fault("is cut in the middle of a chunk", sends(ok200+"Transfer-Encoding: chunked\r\n\r\nff\r\n{}"))
		fault("comes in chunks that are none", sends(ok200+"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"))
		fault("comes in a chunk of exabytes", sends(ok200+"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}\r\n"))
		fault("says two lengths", sends(ok200+"Content-Length: 2\r\nContent-Length: 5\r\n\r\n{}abc"))
		fault("says a negative length", sends(ok200+"Content-Length: -5\r\n\r\n{}"))
		fault("says a length that is none", sends(ok200+"Content-Length: many\r\n\r\n{}"))
		fault("speaks another protocol", sends("SSH-2.0-OpenSSH_9.2\r\n"))
		fault("speaks HTTP of no version", sends("HTTP/9.9 999 \x1b[2J\r\n\r\n"))
		fault("has a status that is none", sends("HTTP/1.1 abc OK\r\n\r\n"))
		fault("has headers without end", hijacked(func(conn net.Conn) {
			io.WriteString(conn, ok200)
			for range 1 << 14 {
				if _, err := io.WriteString(conn, "X-Much: "+strings.Repeat("x", 1000)+"\r\n"); err != nil {
					return
				}
			}
		}))
		fault("has informational answers without end", hijacked(func(conn net.Conn) {
			for range 1 << 14 {
				if _, err := io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"); err != nil {
					return
				}
			}
		}))
		fault("switches protocols", sends("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"))
		fault("says that nothing changed", sends("HTTP/1.1 304 Not Modified\r\n\r\n"))
		fault("fails each time", sends("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"))
		fault("is compressed once more", func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Encoding", "gzip")
			rw.Write(gz([]byte("{}")))
		})
		fault("is a captive portal's", func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "text/html")
			io.WriteString(rw, "<!DOCTYPE html><title>Hotel WiFi</title><form action=/login?session=1>")
		})
	}
	return cases
}

// rangeFaults are about a tarball that is cut once and asked for the rest.
func rangeFaults() []hostile {
	big := func(w *world) {
		noise := make([]byte, 600<<10)
		for i := range noise {
			noise[i] = byte(i * i >> 3 * 7)
		}
		w.tarball = gz(archive(append(release("1.1.0"), program("teleport/tbot", string(noise)))...))
	}
	// cutOnce serves the first part of the tarball, then what the case gives.
	cutOnce := func(name string, code code, says string, then func(w *world, from int, rw http.ResponseWriter, r *http.Request)) hostile {
		c := hostile{name: name, code: code, says: says, waits: true, serves: func(w *world) {
			big(w)
			half := len(w.tarball) / 2
			stages[2].on(w, func(n int64, rw http.ResponseWriter, r *http.Request) {
				if n > 1 {
					var from int
					fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
					then(w, from, rw, r)
					return
				}
				hijacked(func(conn net.Conn) {
					fmt.Fprintf(conn, ok200+"ETag: \"a\"\r\nContent-Length: %d\r\n\r\n", len(w.tarball))
					conn.Write(w.tarball[:half])
				})(rw, r)
			})
		}}
		if code == done {
			c.becomes = "1.1.0"
		}
		return c
	}
	part := func(rw http.ResponseWriter, from, to, total int, etag string, body []byte) {
		rw.Header().Set("ETag", etag)
		rw.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, total))
		rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
		rw.WriteHeader(http.StatusPartialContent)
		rw.Write(body)
	}
	return []hostile{
		cutOnce("the rest is as it should be", done, "", func(w *world, from int, rw http.ResponseWriter, _ *http.Request) {
			part(rw, from, len(w.tarball)-1, len(w.tarball), `"a"`, w.tarball[from:])
		}),
		cutOnce("the whole comes instead of the rest", done, "", func(w *world, _ int, rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("ETag", `"a"`)
			rw.Write(w.tarball)
		}),
		cutOnce("the rest is of another tag", done, "the tarball changed at the server", func(w *world, from int, rw http.ResponseWriter, r *http.Request) {
			if from == 0 { // it begins anew
				w.serveFiles(rw, r)
				return
			}
			part(rw, from, len(w.tarball)-1, len(w.tarball), `"b"`, w.tarball[from:])
		}),
		cutOnce("the rest is of another length", failed, "", func(w *world, from int, rw http.ResponseWriter, _ *http.Request) {
			part(rw, from, len(w.tarball)+9, len(w.tarball)+10, `"a"`, append(slices.Clone(w.tarball[from:]), "0123456789"...))
		}),
		cutOnce("the rest is another range", failed, "not with those from", func(w *world, from int, rw http.ResponseWriter, _ *http.Request) {
			part(rw, from+1, len(w.tarball)-1, len(w.tarball), `"a"`, w.tarball[from+1:])
		}),
		cutOnce("the rest says no range", failed, "not with those from", func(w *world, from int, rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(http.StatusPartialContent)
			rw.Write(w.tarball[from:])
		}),
		cutOnce("the rest says a range that is none", failed, "not with those from", func(w *world, from int, rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Range", "bytes -5-x/y")
			rw.WriteHeader(http.StatusPartialContent)
			rw.Write(w.tarball[from:])
		}),
		cutOnce("the rest is other bytes", failed, "", func(w *world, from int, rw http.ResponseWriter, _ *http.Request) {
			part(rw, from, len(w.tarball)-1, len(w.tarball), `"a"`, make([]byte, len(w.tarball)-from))
		}),
		cutOnce("there is said to be no rest", failed, "", func(w *world, from int, rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", from))
			rw.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		}),
		cutOnce("the rest is gone", failed, "is not there (410 Gone)", func(w *world, _ int, rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusGone) }),
		cutOnce("the rest is said not to have changed", failed, "the server answered \"304", func(w *world, _ int, rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(http.StatusNotModified)
		}),
		cutOnce("the rest is compressed once more", failed, "Content-Encoding", func(w *world, from int, rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Encoding", "gzip")
			part(rw, from, len(w.tarball)-1, len(w.tarball), `"a"`, gz(w.tarball[from:]))
		}),
		{name: "a part comes that nobody asked for", says: "not with those from 0 on", serves: func(w *world) {
			stages[2].on(w, always(func(rw http.ResponseWriter, _ *http.Request) {
				part(rw, 5, len(w.tarball)-1, len(w.tarball), `"a"`, w.tarball[5:])
			}))
		}},
		{name: "the tarball is announced as of terabytes", says: "more than the limit of", serves: func(w *world) {
			stages[2].on(w, always(sends(ok200+"Content-Length: 5000000000000\r\n\r\n")))
		}},
		{name: "the tarball is longer than announced", says: "", serves: func(w *world) {
			stages[2].on(w, always(hijacked(func(conn net.Conn) {
				fmt.Fprintf(conn, ok200+"Content-Length: %d\r\n\r\n", len(w.tarball)-100)
				conn.Write(w.tarball)
			})))
		}},
		{name: "the tarball has no length and is cut", says: "release archive refused: it ends", serves: func(w *world) {
			stages[2].on(w, always(hijacked(func(conn net.Conn) {
				io.WriteString(conn, ok200+"Connection: close\r\n\r\n")
				conn.Write(w.tarball[:len(w.tarball)-50])
			})))
		}},
		{name: "the tarball is another each time", says: "", waits: true, serves: func(w *world) {
			big(w)
			stages[2].on(w, func(n int64, rw http.ResponseWriter, r *http.Request) {
				hijacked(func(conn net.Conn) {
					fmt.Fprintf(conn, ok200+"ETag: \"%d\"\r\nContent-Length: %d\r\n\r\n", n, len(w.tarball))
					conn.Write(w.tarball[:len(w.tarball)/2])
				})(rw, r)
			})
		}},
	}
}

// tlsFaults are servers that are not who they say, or do not speak TLS as it is
// spoken today.
func tlsFaults() []hostile {
	certificate := func(name, says string, which func() tls.Certificate) hostile {
		return hostile{name: "the server's certificate " + name, says: "the server's certificate is not trusted: …" + says, serves: func(w *world) {
			w.tls = func(c *tls.Config) { c.Certificates = []tls.Certificate{which()} }
		}}
	}
	config := func(name, says string, change func(*tls.Config)) hostile {
		return hostile{name: name, says: says, serves: func(w *world) { w.tls = change }}
	}
	raw := func(name, says string, serve func(net.Conn)) hostile {
		return hostile{name: name, says: says, given: func(w *world) {
			w.proxy = "https://" + w.listen(serve)
			w.settings()
		}}
	}
	hello := func(conn net.Conn) { bufio.NewReader(conn).ReadByte() } // the client speaks first
	cases := []hostile{
		certificate("has expired", "the server needs a new one", func() tls.Certificate { return fixture.server.expired }),
		certificate("is of a time to come", "is the clock of this host right?", func() tls.Certificate { return fixture.server.notYet }),
		certificate("is another name's", "127.0.0.1", func() tls.Certificate { return fixture.server.otherName }),
		certificate("is signed by itself", "--ca-file", func() tls.Certificate { return fixture.server.selfSigned }),
		certificate("is of another authority of that name", "", func() tls.Certificate { return fixture.server.strangers }),
		config("the server speaks TLS 1.0 at most", "", func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS10 }),
		config("the server speaks TLS 1.1 at most", "", func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }),
		config("the server speaks old ciphers only", "", func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_RSA_WITH_RC4_128_SHA, tls.TLS_ECDHE_ECDSA_WITH_RC4_128_SHA}
		}),
		config("the server wants a certificate of ours", "", func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }),
		raw("the server does not speak TLS", "the server does not speak TLS at this address and port", func(conn net.Conn) {
			hello(conn)
			io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\nClient sent an HTTPS request\n")
		}),
		raw("the server sends noise instead of a handshake", "", func(conn net.Conn) { hello(conn); io.WriteString(conn, strings.Repeat("\x00\xff", 1000)) }),
		raw("the server closes in the handshake", "", func(conn net.Conn) { hello(conn) }),
		raw("the server resets in the handshake", "", func(conn net.Conn) { hello(conn); reset(conn) }),
		raw("the server sends an alert", "the server ended the TLS handshake", func(conn net.Conn) { hello(conn); io.WriteString(conn, "\x15\x03\x01\x00\x02\x02\x28") }),
		raw("the server sends a record of sixty kilobytes", "", func(conn net.Conn) {
			hello(conn)
			io.WriteString(conn, "\x16\x03\x03\xff\xff"+strings.Repeat("x", 1<<16))
		}),
		{name: "nobody listens", says: "connection refused", given: func(w *world) { w.proxy = "https://" + nobody; w.settings() }},
		{name: "the mirror's certificate has expired", says: "the server's certificate is not trusted: …the server needs a new one", given: func(w *world) {
			other := &world{t: w.t, dir: w.dir, origin: newOrigin()}
			other.tls = func(c *tls.Config) { c.Certificates = []tls.Certificate{fixture.server.expired} }
			other.serve()
			w.t.(interface{ Cleanup(func()) }).Cleanup(other.stop)
			w.templates = other.templates
			w.settings()
		}},
	}
	for _, c := range []struct {
		name, content, says string
		make                func(w *world, path string)
	}{
		{name: "is noise", content: "noise", says: "holds no PEM certificate"},
		{name: "is empty", says: "holds no PEM certificate"},
		{name: "holds a private key", content: "-----BEGIN PRIVATE KEY-----\ncGxhbnRlZA==\n-----END PRIVATE KEY-----\n", says: "only certificates belong there"},
		{name: "is cut", content: "-----BEGIN CERTIFICATE-----\nMIIB", says: "is damaged"},
		{name: "is of five megabytes", content: strings.Repeat("# more\n", 800000), says: "is larger than"},
		{name: "is not there", make: func(w *world, path string) {}, says: "no such file"},
		{name: "is a pipe", make: func(w *world, path string) { w.fifo(path) }, says: "is not a regular file"},
		{name: "is a device without end", make: func(w *world, path string) { w.zero(path) }, says: "is not a regular file"},
		{name: "is a folder", make: func(w *world, path string) { w.folder(path) }, says: "is not a regular file"},
	} {
		cases = append(cases, hostile{name: "the file of authorities " + c.name, says: c.says, given: func(w *world) {
			w.caFile = w.outside("ca.pem")
			if c.make != nil {
				c.make(w, w.caFile)
			} else {
				w.write(w.caFile, c.content, 0o644)
			}
			w.settings()
		}})
	}
	return cases
}
