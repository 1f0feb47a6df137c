package server

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/find/server/admin"
)

// What keeps a server from moving the rollout is said by status and by healthz, with the age of what is shown, until it is
// over: a store that is away, an engine that cannot step, reports that cannot be kept.
func TestWhatBlocksAServerIsSaid(t *testing.T) {
	for _, tc := range []struct {
		name    string
		trouble func(w *storeWorld, r *reportWorld, failing *failingStore) (end func())
		said    string
	}{
		{"the store is away", func(w *storeWorld, _ *reportWorld, _ *failingStore) func() {
			dir := filepath.Dir(w.path)
			move(t, dir, dir+".away")
			return func() { move(t, dir+".away", dir) }
		}, "the store cannot be followed for 3m0s, and no host is told to update: "},
		{"the engine cannot step", func(_ *storeWorld, r *reportWorld, failing *failingStore) func() {
			r.reads(26 * time.Minute)
			failing.fail = true // hosts are away, which the engine has to write
			return func() { failing.fail = false }
		}, "the rollout cannot be moved since 29m0s ago: "},
		{"reports cannot be kept", func(_ *storeWorld, r *reportWorld, failing *failingStore) func() {
			failing.fail = true
			r.says(1, "dev", "17.2.0", failedAt("17.2.1", "it broke"))
			return func() { failing.fail = false }
		}, "reports of hosts cannot be kept, and no group goes on: no space is left"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, r, failing, _ := updating(t)
			ctx, stop := context.WithCancel(t.Context())
			ticks, ended := make(chan time.Time), make(chan struct{})
			go func() { defer close(ended); r.fleet.Run(ctx, ticks) }()
			defer func() { stop(); <-ended }()
			options := admin.Options{Stored: r.stored, Store: failing, Engine: r.engine, Fleet: r.fleet, Log: w.options.Log}
			served := httptest.NewServer(New(Options{Answers: r.stored, Fleet: r.fleet, Blocked: options.Blocked, Log: w.options.Log}))
			defer served.Close()
			health := func() string {
				_, body := get(t, served.URL+"/healthz")
				return body
			}
			look := func() string {
				ticks <- r.clock.Now()
				ticks <- r.clock.Now() // the first one is over
				r.engine.Tick(t.Context())
				r.stored.Refresh(t.Context())
				return strings.Join(options.Blocked(), "\n")
			}
			if said := look(); said != "" || health() != "ok\n" {
				t.Fatalf("nothing is wrong, and it says %q, and %q", said, health())
			}
			end := tc.trouble(w, r, failing)
			r.clock.pass(3 * time.Minute)
			if said := look(); !strings.Contains(said, tc.said) || health() != "ok\nblocked\n" {
				t.Errorf("it says %q, and %q; want %q", said, health(), tc.said)
			}
			end()
			look()
			if said := look(); said != "" || health() != "ok\n" {
				t.Errorf("it is over, and it says %q, and %q", said, health())
			}
		})
	}
}
