package server

import (
	"context"
	"net/http"
	"strings"
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

// A server whose clock is 15 days ahead, or behind, has no dead host count as present at another one, and no live host as
// missing.
func TestAServerWithAnotherTimeMovesNoHost(t *testing.T) {
	for _, off := range []time.Duration{15 * 24 * time.Hour, -15 * 24 * time.Hour} {
		w := newStoreWorld(t)
		right, wrong := newClock(), newClock()
		wrong.pass(off)
		a, b := w.reporting(right, w.store), w.reporting(wrong, w.other)
		b.secrets, b.last = a.secrets, a.last
		a.joined(a.token("all"), "dev", 0, 1)
		b.tickFleet()
		minutes := func(n int, hosts ...int) {
			for minute := range n {
				for _, i := range hosts {
					if minute%5 == 0 {
						b.said(i, "dev", "17.2.0", failedAt("17.2.1", right.Now().String()))
					}
				}
				right.pass(time.Minute)
				wrong.pass(time.Minute)
				a.tickFleet()
				b.tickFleet()
				a.tickFleet()
			}
		}
		minutes(30, 0, 1)
		minutes(27, 0)
		for i, there := range map[int]bool{0: true, 1: false} {
			e, _ := a.fleet.Entry(rollout.ParseHostID(hostUUID(i)))
			if present := right.Now().Sub(e.LastSeen) <= rollout.PresentFor; present != there || e.LastSeen.After(right.Now()) {
				t.Errorf("by a server that is off by %s, host %d was last seen at %s; now it is %s", off, i, e.LastSeen, right.Now())
			}
		}
	}
}

// While the hosts are loaded, hosts are answered, reports come again later, and no group goes on.
func TestAnswersDoNotWaitForTheHosts(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	token := r.token("all")
	r.joined(token, "dev", 0)
	slow := &slowStore{Store: w.other, scan: make(chan struct{})}
	started := inventory.StartFleet(inventory.FleetOptions{Store: slow, Clock: r.clock.Now, Named: r.stored.Named, Log: w.options.Log})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		started.Run(ctx, nil)
	}()
	defer func() { stop(); <-ended }()
	next := *r
	next.fleet, next.handler = started, New(Options{Answers: r.stored, Fleet: started, Log: w.options.Log})
	if answer := next.stored.Answer("dev", ""); answer.Check() != nil {
		t.Errorf("%+v", answer)
	}
	if status, said := next.says(0, "dev", "17.2.0", nil); status != http.StatusServiceUnavailable || !strings.Contains(said.Error, "loading") {
		t.Errorf("a report meanwhile: %d %+v", status, said)
	}
	if status, said := next.joins(1, token, secretOf(1), "dev"); status != http.StatusServiceUnavailable || !strings.Contains(said.Error, "loading") {
		t.Errorf("a join meanwhile: %d %+v", status, said)
	}
	r.clock.pass(2 * rollout.PresentFor)
	if n := countsOf(started, new(rollout.Rollout), r.clock.Now()); n.Complete || !started.Loading() {
		t.Error("groups go on before the hosts are known")
	}
	close(slow.scan)
	for started.Loading() {
		time.Sleep(time.Millisecond)
	}
	next.said(0, "dev", "17.2.0", nil)
}

// slowStore lets nobody go through it until somebody closes scan.
type slowStore struct {
	store.Store
	scan chan struct{}
}

func (s *slowStore) Scan(ctx context.Context, prefix string, f func(store.Item) bool) (store.Revision, error) {
	<-s.scan
	return s.Store.Scan(ctx, prefix, f)
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
