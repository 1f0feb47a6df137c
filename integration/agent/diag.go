package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"teleport-update/integration/agent/stamp"
)

// diag is the diagnostics server: /healthz and /readyz are Teleport's, /version
// and /session are for tests.
type diag struct {
	listener net.Listener
	server   *http.Server
	served   chan struct{}  // closed when no more connections are accepted
	open     sync.WaitGroup // the connections
}

// serveDiag starts serving. GET /version answers who serves, GET /session is a
// user's session: a line every 100 ms for as long as the client stays, and a
// process that leaves in good order waits for it.
func serveDiag(l net.Listener, self stamp.Stamp, s *state, handover bool) *diag {
	d := &diag{listener: l, served: make(chan struct{})}
	exe, _ := os.Readlink("/proc/self/exe")
	started := now()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if self.Variant == stamp.NeverReady {
			answer(w, http.StatusServiceUnavailable, map[string]string{"status": "teleport is starting and hasn't joined the cluster yet"})
			return
		}
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{
			"version": self.Version, "edition": self.Edition, "variant": self.Variant, "schema": self.Schema,
			"pid": os.Getpid(), "executable": exe, "started": started, "handover": handover,
			"last_row": s.lastRow.Load(), "failed_writes": s.failed.Load(),
		})
	})
	mux.HandleFunc("GET /session", func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := fmt.Fprintf(w, "%s %d\n", self.Version, os.Getpid()); err != nil {
				return
			}
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			select {
			case <-r.Context().Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	d.server = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				d.open.Add(1)
			case http.StateClosed:
				d.open.Done()
			}
		},
	}
	go func() {
		defer close(d.served)
		d.server.Serve(l)
	}()
	return d
}

// leave stops accepting connections and returns when those that were accepted
// have ended. It is not Shutdown: that drops a connection whose request arrives
// while it is under way.
func (d *diag) leave() {
	d.listener.Close()
	<-d.served
	d.server.SetKeepAlivesEnabled(false)
	d.open.Wait()
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}
