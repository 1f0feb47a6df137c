package server

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/inventory"
	"teleport-update/find/store"
)

// hookedStore calls hooks, once each, where another goroutine could come in between.
type hookedStore struct {
	store.Store
	committed, read func()
}

func (s *hookedStore) Commit(ctx context.Context, c store.Change) ([]store.Revision, error) {
	revisions, err := s.Store.Commit(ctx, c)
	if hook := s.committed; hook != nil {
		s.committed = nil
		hook()
	}
	return revisions, err
}

func (s *hookedStore) Changes(ctx context.Context, prefix string, since store.Revision, limit int) ([]store.Item, store.Revision, error) {
	items, upTo, err := s.Store.Changes(ctx, prefix, since, limit)
	if hook := s.read; hook != nil {
		s.read = nil
		hook()
	}
	return items, upTo, err
}

// attempt is a verdict of its own, of the same second as the others.
func attempt(n int) func(*find.Heartbeat) {
	return func(b *find.Heartbeat) {
		b.Outcome = &find.Outcome{Target: "17.2.1", State: "rolled_back", Error: fmt.Sprint("attempt ", n), Time: time.Date(2025, 6, 2, 11, 0, 0, n, time.UTC)}
	}
}

// verdictOf is what the server knows of the first host, and what it knows after a kill.
func (r *reportWorld) verdictOf(t *testing.T) (now, afterKill string) {
	id := rollout.ParseHostID(hostUUID(0))
	known, _ := r.fleet.Entry(id)
	kept, _ := r.again(r.w.other).fleet.Entry(id)
	return known.Failed.Error, kept.Failed.Error
}

// While a report of a host is written, the next one of the same second comes, and the
// server reads what it has just written itself.
func TestTheNextReportOfTheSameSecondIsNotLost(t *testing.T) {
	w := newStoreWorld(t)
	hooked := &hookedStore{Store: w.store}
	r := w.reporting(newClock(), hooked)
	r.joined(r.token("all"), "dev", 0)
	second := make(chan int)
	hooked.committed = func() {
		go func() {
			status, _ := r.says(0, "dev", "17.2.0", attempt(2))
			second <- status
		}()
		// It waits until this one is written, and its host is known to have said it.
		for e, _ := r.fleet.Entry(rollout.ParseHostID(hostUUID(0))); e.Sequence < 2; e, _ = r.fleet.Entry(e.ID) {
			runtime.Gosched()
		}
		if err := r.fleet.Sync(t.Context()); err != nil {
			t.Error(err)
		}
	}
	r.said(0, "dev", "17.2.0", attempt(1))
	if status := <-second; status != http.StatusOK {
		t.Errorf("the second report: %d", status)
	}
	if now, kept := r.verdictOf(t); now != "attempt 2" || kept != "attempt 2" {
		t.Errorf("known is %q, kept is %q", now, kept)
	}
}

// While a server reads what has changed, a newer report is written: what was read is old.
func TestWhatIsReadLateUndoesNothing(t *testing.T) {
	w := newStoreWorld(t)
	hooked := &hookedStore{Store: w.store}
	r := w.reporting(newClock(), hooked)
	r.joined(r.token("all"), "dev", 0)
	r.said(0, "dev", "17.2.0", attempt(1))
	hooked.read = func() { r.said(0, "dev", "17.2.0", attempt(2)) }
	if err := r.fleet.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now, kept := r.verdictOf(t); now != "attempt 2" || kept != "attempt 2" {
		t.Errorf("known is %q, kept is %q", now, kept)
	}
}

// While a report is written, another server writes a newer one, which is read first.
func TestAReportWrittenByAnotherServerMeanwhileBlocksNothing(t *testing.T) {
	w := newStoreWorld(t)
	hooked := &hookedStore{Store: w.store}
	clock := newClock()
	a, b := w.reporting(clock, hooked), w.reporting(clock, w.other)
	b.secrets, b.last = a.secrets, a.last
	a.joined(a.token("all"), "dev", 0)
	hooked.committed = func() {
		if err := b.fleet.Sync(t.Context()); err != nil {
			t.Error(err)
		}
		b.said(0, "dev", "17.2.1", nil)
		if err := a.fleet.Sync(t.Context()); err != nil {
			t.Error(err)
		}
	}
	a.said(0, "dev", "17.2.0", attempt(1))
	if status, said := a.says(0, "dev", "17.2.0", attempt(2)); status != http.StatusOK {
		t.Fatalf("%d %+v", status, said)
	}
	if now, kept := a.verdictOf(t); now != "attempt 2" || kept != "attempt 2" {
		t.Errorf("known is %q, kept is %q", now, kept)
	}
}

// The first change of an empty store comes while a server loads it.
func TestTheFirstChangeDuringALoadIsNotMissed(t *testing.T) {
	w := newStoreWorld(t)
	clock := newClock()
	other := w.reporting(clock, w.other)
	hooked := &awayStore{Store: w.store}
	hooked.scanned = func() { other.token("first") }
	r := w.reporting(clock, hooked)
	if err := r.fleet.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tokens := r.fleet.Tokens(); len(tokens) != 1 {
		t.Errorf("the server knows %d tokens", len(tokens))
	}
}

// A report costs one operation of the store if it has something to keep, and none if not.
func TestReportsDoNotAskWhichStoreItIs(t *testing.T) {
	w := newStoreWorld(t)
	counted := &awayStore{Store: w.store}
	r := w.reporting(newClock(), counted)
	r.joined(r.token("all"), "dev", 0, 1, 2)
	before := counted.identity.Load()
	for n := range 5 {
		for i := range 3 {
			r.said(i, "dev", "17.2.0", verdict(n))
		}
	}
	if asked := counted.identity.Load() - before; asked != 0 {
		t.Errorf("15 reports asked %d times", asked)
	}
	if n := counted.ofAny.Load(); n > 0 {
		t.Errorf("%d reports would be written to any store", n)
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
