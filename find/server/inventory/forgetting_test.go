package inventory

import (
	"fmt"
	"testing"
	"time"

	"teleport-update/find/rollout"
)

// silent has hosts report once, and returns when nobody has heard of them for long enough to forget them.
func (f *Fleet) silent(t *testing.T, c *clock, hosts int) {
	t.Helper()
	f.waiting(hosts, c.Now())
	if err := f.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.pass(HostLife + time.Second)
	if err := f.Tick(t.Context()); err != nil { // which sees a pause
		t.Fatal(err)
	}
	c.pass(forgetEvery)
}

// stored returns how many hosts the store has.
func (f *Fleet) stored(t *testing.T) int {
	t.Helper()
	items, _, err := f.opts.Store.List(t.Context(), hostPrefix)
	if err != nil {
		t.Fatal(err)
	}
	return len(items)
}

// Many hosts are forgotten at once: it takes one write for some hundreds of them, and with a slow store some ticks, of which none
// looks like one that hangs.
func TestManyHostsAreForgottenInTicksThatEnd(t *testing.T) {
	const batches = 6
	clock := newClock()
	f, s := newFaulty(t, clock)
	f.silent(t, clock, batches*hostsAtOnce)
	s.commit = func() error { clock.pass(flushTime - time.Second); return nil }
	s.commits = 0
	for tick := 1; f.Len() > 0; tick++ {
		before, began := f.Len(), clock.Now()
		if err := f.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := clock.Now().Sub(began); took > 4*flushTime || f.Len() == before {
			t.Fatalf("tick %d took %s, and %d of %d hosts are left", tick, took, f.Len(), before)
		}
		if left := f.stored(t); left != f.Len() {
			t.Fatalf("%d hosts are in the store, and %d are known", left, f.Len())
		}
	}
	if s.commits > 2*batches {
		t.Errorf("%d writes for %d hosts", s.commits, batches*hostsAtOnce)
	}
}

// A host of which another server has heard meanwhile stays, whatever becomes of the others.
func TestAHostThatOthersHaveHeardOfIsNotForgotten(t *testing.T) {
	clock := newClock()
	f, s := newFaulty(t, clock)
	f.silent(t, clock, 10)
	id := rollout.ParseHostID(hostUUID(3))
	heard := func() {
		item, err := s.Get(t.Context(), HostKey(id))
		if err != nil {
			t.Fatal(err)
		}
		e, _, _, err := decodeHost(item)
		if err != nil {
			t.Fatal(err)
		}
		e.LastSeen = clock.Now()
		if _, err := s.Put(t.Context(), item.Key, encodeHost(&e, nil), item.Revision); err != nil {
			t.Fatal(err)
		}
	}
	s.commit = func() error { // the first one is of who was seen
		if s.commits == 2 {
			heard()
		}
		return nil
	}
	s.commits = 0
	for range 2 { // the second one reads what was written meanwhile
		if err := f.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, known := f.Entry(id); !known {
			t.Fatal("reports of the host are refused")
		}
	}
	if e, known := f.Entry(id); !known || !e.LastSeen.Equal(clock.Now()) || f.Len() != 1 || f.stored(t) != 1 {
		t.Errorf("%d hosts are known, and %d are in the store; of this one %+v", f.Len(), f.stored(t), e)
	}
}

// A server whose clock is weeks ahead forgets nobody, even if it does not know that yet.
func TestTheStoresClockHasToAgreeBeforeAHostIsForgotten(t *testing.T) {
	for behind, want := range map[time.Duration]int{0: 0, time.Hour: 0, 15 * 24 * time.Hour: 5} {
		t.Run(fmt.Sprint(behind), func(t *testing.T) {
			clock := newClock()
			f, s := newFaulty(t, clock)
			f.silent(t, clock, 5)
			s.now = func() time.Time { return clock.Now().Add(-behind) }
			if err := f.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
			if f.Len() != want || f.stored(t) != want {
				t.Errorf("%d hosts are known, and %d are in the store; want %d", f.Len(), f.stored(t), want)
			}
		})
	}
}
