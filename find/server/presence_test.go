package server

import (
	"net/http"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/server/inventory"
	"teleport-update/find/store"
)

// inTime has the report say the sequence that an updater with the right time says.
func (r *reportWorld) inTime(b *find.Heartbeat) { b.Sequence = fleet.SequenceAt(r.clock.Now()) }

func (r *reportWorld) tickFleet() {
	r.t.Helper()
	if err := r.fleet.Tick(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// A report is taken once: a minute later the other server of the store takes it no more, whatever the host counts by, and the
// next report of the host is taken by either.
func TestAReportIsNotReplayedToAnotherServer(t *testing.T) {
	for name, count := range map[string]func(r *reportWorld) func(*find.Heartbeat){
		"seconds": func(r *reportWorld) func(*find.Heartbeat) { return r.inTime },
		"reports": func(*reportWorld) func(*find.Heartbeat) { return nil },
		"seconds, by an hour too far": func(r *reportWorld) func(*find.Heartbeat) {
			return func(b *find.Heartbeat) { r.inTime(b); b.Sequence += 3600 }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStoreWorld(t)
			clock := newClock()
			a, b := w.reporting(clock, w.store), w.reporting(clock, w.other)
			b.secrets, b.last = a.secrets, a.last
			a.joined(a.token("all"), "dev", 0, 1)
			both := func() { // a minute of both servers
				for range 12 {
					clock.pass(inventory.SyncEvery)
					a.tickFleet()
					b.tickFleet()
				}
			}
			a.said(0, "dev", "17.2.0", count(a))
			both()
			for range 3 {
				a.said(0, "dev", "17.2.0", count(a))
				taken := clock.Now()
				replay := func(h *find.Heartbeat) {
					count := count(a)
					if count != nil {
						count(h)
						h.Sequence -= uint32(clock.Now().Sub(taken) / time.Second)
					}
				}
				both()
				a.last[0]--
				if status, _ := b.says(0, "dev", "17.2.0", replay); status != http.StatusConflict {
					t.Fatalf("the report of a minute ago is answered with %d by the other server", status)
				}
				if e, _ := b.fleet.Entry(rollout.ParseHostID(hostUUID(0))); clock.Now().Sub(e.LastSeen) > time.Minute {
					t.Errorf("the other server has seen the host at %s; now it is %s", e.LastSeen, clock.Now())
				}
				clock.pass(time.Minute)
				b.said(0, "dev", "17.2.0", count(b))
				both()
			}
		})
	}
}

// Two servers have hosts enrolled at the same time, hosts go and others come: each server knows of each host when it
// was seen, and of none that it was seen when it was not.
func TestServersAgreeOnTheNumbersOfHosts(t *testing.T) {
	w := newStoreWorld(t)
	clock := newClock()
	a, b := w.reporting(clock, w.store), w.reporting(clock, w.other)
	b.secrets, b.last = a.secrets, a.last
	token := a.token("all")
	hosts := []int{0, 1, 2, 3, 4, 5, 6, 7}
	a.joined(token, "dev", hosts...)
	b.tickFleet()
	seen := make(map[int]time.Time)
	servers := []*reportWorld{a, b}
	for round := range 30 {
		for _, i := range hosts {
			if (round+i)%3 == 0 && i < 6+round/10 {
				servers[(round+i)/3%2].said(i, "dev", "17.2.0", nil)
				seen[i] = clock.Now()
			}
		}
		clock.pass(time.Minute)
		a.tickFleet()
		b.tickFleet()
		a.tickFleet()
		for _, s := range append(servers, a.again(w.other)) {
			for _, i := range hosts {
				e, _ := s.fleet.Entry(rollout.ParseHostID(hostUUID(i)))
				if late := e.LastSeen.Sub(seen[i]); seen[i].IsZero() != e.LastSeen.IsZero() || late < 0 || !seen[i].IsZero() && late > time.Minute {
					t.Fatalf("round %d: host %d was seen at %s, and a server knows of %s", round, i, seen[i], e.LastSeen)
				}
			}
		}
	}
}

// A host's clock is a minute behind, and it reports to one server: of its success it says so a moment after the servers have told one
// another who was seen. What the other server knew before is not newer than that.
func TestANoteOfWhoWasSeenMakesNothingNewer(t *testing.T) {
	for name, count := range map[string]func(r *reportWorld, b *find.Heartbeat){
		"its clock is behind": func(r *reportWorld, b *find.Heartbeat) {
			b.Sequence = fleet.SequenceAt(r.clock.Now().Add(-time.Minute))
		},
		"its clock is right": (*reportWorld).inTime,
		"it counts reports":  func(*reportWorld, *find.Heartbeat) {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStoreWorld(t)
			clock := newClock()
			a, b := w.reporting(clock, w.store), w.reporting(clock, w.other)
			b.secrets, b.last = a.secrets, a.last
			a.joined(a.token("all"), "dev", 0)
			both := func() {
				for range 2 {
					a.tickFleet()
					b.tickFleet()
				}
			}
			both()
			for range 3 {
				b.said(0, "dev", "17.2.0", func(h *find.Heartbeat) { count(b, h); h.Told = "17.2.1" })
				clock.pass(time.Minute)
				both()
			}
			clock.pass(10 * time.Second)
			b.said(0, "dev", "17.2.1", func(h *find.Heartbeat) { count(b, h) })
			both()
			for i, s := range []*reportWorld{a, b, a.again(w.other)} {
				if e, _ := s.fleet.Entry(rollout.ParseHostID(hostUUID(0))); e.Version != "17.2.1" || e.Told.Target != "" {
					t.Errorf("server %d knows the host with %s, told %q", i, e.Version, e.Told.Target)
				}
			}
		})
	}
}

// Two servers with one store know the same hosts, and their verdicts.
func TestTwoServersKnowTheSameHosts(t *testing.T) {
	w := newStoreWorld(t)
	clock := newClock()
	a, b := w.reporting(clock, w.store), w.reporting(clock, w.other)
	b.secrets, b.last = a.secrets, a.last
	token := a.token("all")
	b.joined(token, "dev", 0)
	sync := func(r *reportWorld) {
		t.Helper()
		if err := r.fleet.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sync(a)
	a.said(0, "dev", "17.2.0", failedAt("17.2.1", "it broke"))
	clock.pass(time.Minute)
	b.said(0, "dev", "17.2.2", nil) // which does not know of it yet
	sync(a)
	for _, r := range []*reportWorld{a, b} {
		e, ok := r.fleet.Entry(rollout.ParseHostID(hostUUID(0)))
		if !ok || e.Failed.Error != "it broke" || e.Version != "17.2.2" {
			t.Errorf("%+v", e)
		}
	}
	if _, err := a.fleet.RevokeHost(t.Context(), rollout.ParseHostID(hostUUID(0)), store.Audit{Who: "uid 0"}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := a.fleet.RevokeToken(t.Context(), "all", false, store.Audit{Who: "uid 0"}, false); err != nil {
		t.Fatal(err)
	}
	if status, _ := b.joins(5, token, secretOf(5), "dev"); status != http.StatusUnauthorized {
		t.Errorf("a token that was revoked elsewhere: %d", status)
	}
	if status, _ := b.says(0, "dev", "17.2.2", nil); status != http.StatusUnauthorized {
		t.Errorf("a host that was revoked elsewhere: %d", status)
	}
	// Who was seen by one is known to the other.
	a.joined(a.token("more"), "dev", 1, 2)
	clock.pass(2 * time.Minute)
	a.said(1, "dev", "17.2.0", nil)
	for _, r := range []*reportWorld{a, b} {
		if err := r.fleet.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if e, _ := b.fleet.Entry(rollout.ParseHostID(hostUUID(1))); !e.LastSeen.Equal(clock.Now()) || e.Sequence != 1 {
		t.Errorf("%+v", e)
	}
}
