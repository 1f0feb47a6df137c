//go:build hosts

package fleetguides

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"teleport-update/find/server/adminapi"
	"teleport-update/integration/fleet"
	"teleport-update/integration/host"
)

// clock is that of one find server, which a page sets by its marks "later: DURATION". What the server sees does not
// depend on the time of day at which the page is run.
type clock struct {
	server *host.Test
	now    time.Time
}

// clockFile is where the server reads its time.
const clockFile = "/etc/teleport-find.clock"

// withClock gives a find server, before its package is installed, a clock that stands at noon of a Monday.
func (r *reader) withClock(name string) {
	r.t.Helper()
	program, err := fleet.BuildServer(r.t.Context())
	check(r.t, err)
	r.clock = &clock{server: r.hosts[name], now: fleet.Begin}
	r.clock.server.Put(program, "/usr/local/lib/teleport-find-with-a-clock")
	r.clock.server.Write("/etc/systemd/system/teleport-find.service.d/50-clock.conf", "[Service]\nEnvironment=FLEET_CLOCK="+clockFile+
		"\nExecStart=\nExecStart=/usr/local/lib/teleport-find-with-a-clock serve\nWatchdogSec=0\n")
	r.setClock()
}

func (r *reader) setClock() {
	r.t.Helper()
	check(r.t, r.clock.server.WriteFile(clockFile, []byte(r.clock.now.Format(time.RFC3339Nano)), 0o644))
}

// pass lets time go by, in which all hosts that are enabled look as often as their timers would have them.
func (r *reader) pass(d time.Duration) {
	r.t.Helper()
	for end := r.clock.now.Add(d); r.clock.now.Before(end); {
		r.jump(min(fleet.Poll, end.Sub(r.clock.now)))
		r.tick()
		// The engine takes one step in one look.
		for range 3 {
			r.jump(time.Second)
		}
	}
}

// jump sets the clock, and returns when the server's engine has looked since.
func (r *reader) jump(d time.Duration) {
	r.t.Helper()
	r.clock.now = r.clock.now.Add(d)
	r.setClock()
	host.Wait(r.t, host.Patience, func() error {
		var o adminapi.Overview
		got := r.clock.server.Try("teleport-find", "status", "-o", "json")
		if err := json.Unmarshal([]byte(got.Stdout), &o); err != nil {
			return fmt.Errorf("status: %w\n%s", err, got.Stderr)
		}
		if o.Server.LastTick.Before(r.clock.now) {
			return fmt.Errorf("the engine has not looked since %v: %+v", r.clock.now, o.Server)
		}
		return nil
	})
}

// tick has the timer of every enabled host run, at the same time.
func (r *reader) tick() {
	var all sync.WaitGroup
	for _, h := range r.hosts {
		if !h.Exists("/var/lib/teleport/versions/updates.yaml") {
			continue
		}
		if !r.hurried[h] {
			// Each update watches its agent for that long.
			h.Must("teleport-update", "enable", "--health-window", "3s")
			r.hurried[h] = true
		}
		all.Go(func() {
			// A run that fails is what a page may want.
			h.Run(r.t.Context(), "sh", "-c", "systemctl reset-failed teleport-update.service; systemctl start teleport-update.service")
		})
	}
	all.Wait()
}
