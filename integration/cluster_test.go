//go:build hosts

package integration

import (
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/server"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/internal/version"
)

const (
	proxyAddress = "http://127.0.0.1:3080"
	templateURL  = proxyAddress + "/releases/teleport{{if .Enterprise}}-ent{{end}}-v{{.Version}}-{{.OS}}-{{.Arch}}{{if .FIPS}}-fips{{end}}-bin.tar.gz"
)

// cluster is the find server of one host: the real handler, in the test's own
// process, so that answers and faults can change between two requests.
type cluster struct {
	t        *testing.T
	releases string // folder of tarballs

	mu     sync.Mutex
	answer find.Answer
	fault  func(w http.ResponseWriter, r *http.Request) bool // true: it has answered

	asked      atomic.Int64 // requests to find
	downloaded atomic.Int64 // bytes of tarballs
}

func newCluster(t *testing.T, h *host.Test) *cluster {
	t.Helper()
	c := &cluster{t: t, releases: t.TempDir()}
	files, err := server.OpenReleases(c.releases, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	handler := server.New(server.Options{Answers: c, Releases: files, Log: slog.New(slog.DiscardHandler)})
	srv := &http.Server{Handler: c.middleware(handler), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)}
	listener, err := h.Listen("tcp", "127.0.0.1:3080")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(listener)
	t.Cleanup(func() {
		srv.Close()
		files.Close()
	})
	return c
}

// Answer implements server.Answerer.
func (c *cluster) Answer(string, string) find.Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answer
}

// wants makes find name a version, now.
func (c *cluster) wants(v string) {
	c.set(find.Answer{Version: v, Edition: version.OSS, AutoUpdate: true})
}

func (c *cluster) set(a find.Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = a
}

// breaks lets fault answer in the server's place; nil heals it.
func (c *cluster) breaks(fault func(w http.ResponseWriter, r *http.Request) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = fault
}

func (c *cluster) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isFind := strings.HasSuffix(r.URL.Path, "/webapi/find")
		if isFind {
			c.asked.Add(1)
		}
		c.mu.Lock()
		fault := c.fault
		c.mu.Unlock()
		counted := &countingResponse{ResponseWriter: w}
		if !isFind && !strings.HasSuffix(r.URL.Path, ".sha256") {
			counted.to = &c.downloaded
		}
		if fault == nil || !fault(counted, r) {
			next.ServeHTTP(counted, r)
		}
	})
}

type countingResponse struct {
	http.ResponseWriter
	to *atomic.Int64 // nil: nobody asks
}

func (c *countingResponse) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	if c.to != nil {
		c.to.Add(int64(n)) // as they are written: the connection may be cut
	}
	return n, err
}

func (c *countingResponse) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// release builds a tarball; its unit restarts quickly, so that windows can be
// short.
func (c *cluster) release(s release.Spec) {
	c.t.Helper()
	agent, err := host.Build(c.t.Context(), host.Agent())
	if err != nil {
		c.t.Fatal(err)
	}
	s.Agent = agent
	if s.Unit.RestartDelay == 0 {
		s.Unit.RestartDelay = 300 * time.Millisecond
	}
	if _, _, err := release.Build(c.releases, s); err != nil {
		c.t.Fatal(err)
	}
}

// sound builds releases without faults.
func (c *cluster) sound(versions ...string) {
	c.t.Helper()
	for _, v := range versions {
		c.release(release.Spec{Version: v})
	}
}

// loopback is a listener of this process inside the host.
func loopback(t *testing.T, h *host.Test, address string) net.Listener {
	t.Helper()
	l, err := h.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
