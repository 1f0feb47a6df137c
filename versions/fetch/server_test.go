package fetch

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// releaseServer is a real TLS server that serves one tarball, with faults.
type releaseServer struct {
	signature string // what lies beside the tarball; empty: nothing
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	tarball []byte
	etag    string
	fault   func(n int, w *faultyWriter, r *http.Request) bool
	traffic traffic
}

// traffic is what a server saw.
type traffic struct {
	requests []string // "GET PATH RANGE"
	ifRange  []string // of the requests with a range
	count    int      // requests for the tarball
	sent     int      // bytes of tarball
}

// seen returns the traffic so far. Handlers may still be running.
func (s *releaseServer) seen() traffic {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.traffic
	seen.requests, seen.ifRange = slices.Clone(seen.requests), slices.Clone(seen.ifRange)
	return seen
}

// forget begins anew, without faults.
func (s *releaseServer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.traffic = nil, traffic{}
}

func serve(t *testing.T, tarball []byte) *releaseServer {
	t.Helper()
	s := &releaseServer{t: t, tarball: tarball, etag: `"one"`}
	s.Server = httptest.NewTLSServer(s)
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	return s
}

// faultyWriter can cut the connection after some bytes, or hold it.
type faultyWriter struct {
	http.ResponseWriter
	s        *releaseServer
	r        *http.Request
	left     int  // bytes until the fault; negative: none
	stall    bool // the fault is silence, not a cut
	reset    bool // the cut is a RST
	noRanges bool
	slow     bool // each 2 KiB take 20 ms
}

func (w *faultyWriter) Write(p []byte) (int, error) {
	if w.slow {
		return w.trickle(p)
	}
	if w.left >= 0 && len(p) > w.left {
		n, _ := w.ResponseWriter.Write(p[:w.left])
		w.s.add(n)
		w.left = 0
		w.ResponseWriter.(http.Flusher).Flush()
		switch {
		case w.stall:
			<-w.r.Context().Done()
		case w.reset:
			conn, _, err := w.ResponseWriter.(http.Hijacker).Hijack()
			if err == nil {
				if tcp, ok := netConn(conn).(*net.TCPConn); ok {
					tcp.SetLinger(0)
				}
				conn.Close()
			}
		}
		panic(http.ErrAbortHandler)
	}
	if w.left >= 0 {
		w.left -= len(p)
	}
	n, err := w.ResponseWriter.Write(p)
	w.s.add(n)
	return n, err
}

func (w *faultyWriter) trickle(p []byte) (sent int, err error) {
	for chunk := range slices.Chunk(p, 2<<10) {
		n, err := w.ResponseWriter.Write(chunk)
		w.s.add(n)
		sent += n
		if err != nil {
			return sent, err
		}
		w.ResponseWriter.(http.Flusher).Flush()
		time.Sleep(20 * time.Millisecond)
	}
	return sent, nil
}

func netConn(c net.Conn) net.Conn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		return t.NetConn()
	}
	return c
}

func (s *releaseServer) add(n int) {
	s.mu.Lock()
	s.traffic.sent += n
	s.mu.Unlock()
}

func (s *releaseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, ".sig") {
		if s.signature == "" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, s.signature)
		return
	}
	s.mu.Lock()
	s.traffic.requests = append(s.traffic.requests, strings.TrimSpace("GET "+r.URL.Path+" "+r.Header.Get("Range")))
	if r.Header.Get("Range") != "" {
		s.traffic.ifRange = append(s.traffic.ifRange, r.Header.Get("If-Range"))
	}
	sum := strings.HasSuffix(r.URL.Path, ".sha256")
	if !sum {
		s.traffic.count++
	}
	n, fault, tarball, etag := s.traffic.count, s.fault, s.tarball, s.etag
	s.mu.Unlock()
	if sum {
		fmt.Fprintf(w, "%s  release\n", digestHex(tarball))
		return
	}
	fw := &faultyWriter{ResponseWriter: w, s: s, r: r, left: -1}
	if fault != nil && fault(n, fw, r) {
		return
	}
	if fw.noRanges {
		w.Header().Set("Content-Length", fmt.Sprint(len(tarball)))
		fw.Write(tarball)
		return
	}
	if etag != "" {
		w.Header().Set("ETag", etag)
	}
	http.ServeContent(fw, r, "", time.Time{}, strings.NewReader(string(tarball)))
}

// replace puts another tarball in the place of the one that was served.
func (s *releaseServer) replace(tarball []byte, etag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tarball, s.etag = tarball, etag
}

func (s *releaseServer) template() *Template {
	return mustTemplate(s.t, s.URL+"/teleport-v{{ .Version }}.tar.gz")
}

// cutting cuts each of the first n connections after so many bytes.
func cutting(n, after int) func(int, *faultyWriter, *http.Request) bool {
	return func(count int, w *faultyWriter, _ *http.Request) bool {
		if count <= n {
			w.left = after
		}
		return false
	}
}
