// Package cluster is the cluster of a test's host: a find server whose answers and
// faults the test decides, and the folder of releases behind it.
package cluster

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
	"teleport-update/find/server/files"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/internal/version"
)

// Where the host finds its cluster.
const (
	ProxyAddress = "http://127.0.0.1:3080"
	TemplateURL  = ProxyAddress + "/releases/teleport{{if .Enterprise}}-ent{{end}}-v{{.Version}}-{{.OS}}-{{.Arch}}{{if .FIPS}}-fips{{end}}-bin.tar.gz"
)

// Cluster is the find server of one host: the real handler, in the test's own
// process, so that answers and faults can change between two requests.
type Cluster struct {
	t        *testing.T
	Releases string // folder of tarballs

	mu     sync.Mutex
	answer find.Answer
	fault  func(w http.ResponseWriter, r *http.Request) bool // true: it has answered

	Inventory Inventory // of the agents that say hello

	Asked      atomic.Int64 // requests to find
	Downloaded atomic.Int64 // bytes of tarballs
}

// New starts a find server in the host's network; the end of the test stops it.
func New(t *testing.T, h *host.Test) *Cluster {
	t.Helper()
	c := &Cluster{t: t, Releases: t.TempDir()}
	files, err := files.OpenReleases(c.Releases, slog.New(slog.DiscardHandler))
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
		h.Keep()
		srv.Close()
		files.Close()
	})
	return c
}

// Answer implements server.Answerer.
func (c *Cluster) Answer(string, string) find.Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answer
}

// Wants makes find name a version, now.
func (c *Cluster) Wants(v string) {
	c.Set(find.Answer{Version: v, Edition: version.OSS, AutoUpdate: true})
}

// Set makes find answer that, from now on.
func (c *Cluster) Set(a find.Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = a
}

// Breaks lets fault answer in the server's place; nil heals it.
func (c *Cluster) Breaks(fault func(w http.ResponseWriter, r *http.Request) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = fault
}

// FindDown is a fault of find alone: releases are still there.
func FindDown(w http.ResponseWriter, r *http.Request) bool {
	if !strings.HasSuffix(r.URL.Path, "/webapi/find") {
		return false
	}
	w.WriteHeader(http.StatusBadGateway)
	return true
}

func (c *Cluster) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isFind := strings.HasSuffix(r.URL.Path, "/webapi/find")
		if isFind {
			c.Asked.Add(1)
		}
		c.mu.Lock()
		fault := c.fault
		c.mu.Unlock()
		counted := &countingResponse{ResponseWriter: w}
		if !isFind && !strings.HasSuffix(r.URL.Path, ".sha256") {
			counted.to = &c.Downloaded
		}
		if (fault == nil || !fault(counted, r)) && !c.Inventory.serve(counted, r, isFind) {
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

// Release builds a tarball; its unit restarts quickly, so that windows can be
// short. Its files are stored in the gzip as they are, unless the spec says more about
// its size or its compression: deflating them, and inflating them on each host, was an
// eighth of all that tests of hosts compute.
func (c *Cluster) Release(s release.Spec) {
	c.t.Helper()
	agent, err := host.Build(c.t.Context(), host.Agent())
	if err != nil {
		c.t.Fatal(err)
	}
	s.Agent = agent
	if s.Unit.RestartDelay == 0 {
		s.Unit.RestartDelay = 300 * time.Millisecond
	}
	if s.Compression == "" && s.Pad == 0 && len(s.Files) == 0 {
		s.Compression = release.Stored
	}
	if _, _, err := release.Build(c.Releases, s); err != nil {
		c.t.Fatal(err)
	}
}

// Sound builds releases without faults.
func (c *Cluster) Sound(versions ...string) {
	c.t.Helper()
	for _, v := range versions {
		c.Release(release.Spec{Version: v})
	}
}

// Loopback is a listener of this process inside the host.
func Loopback(t *testing.T, h *host.Test, address string) net.Listener {
	t.Helper()
	l, err := h.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
