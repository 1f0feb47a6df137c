package inventory

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// faultyStore is a store of which a test makes what it wants, and that counts what it is asked.
type faultyStore struct {
	store.Store
	identity, commit func() error     // before these operations; nil: nothing
	now              func() time.Time // by its clock; nil: as the store has it
	progress         func()           // FleetOptions.Progress
	epoch            int64            // is another one if it is not that of the store
	read             func()           // after each item that is read; nil: nothing
	asked, commits   int
}

func (s *faultyStore) Scan(ctx context.Context, prefix string, f func(store.Item) bool) (store.Revision, error) {
	return s.Store.Scan(ctx, prefix, func(item store.Item) bool {
		if s.read != nil {
			s.read()
		}
		return f(item)
	})
}

func (s *faultyStore) Changes(ctx context.Context, prefix string, since store.Revision, limit int) ([]store.Item, store.Revision, error) {
	items, upTo, err := s.Store.Changes(ctx, prefix, since, limit)
	for range items {
		if s.read != nil {
			s.read()
		}
	}
	return items, upTo, err
}

func (s *faultyStore) Now(ctx context.Context) (time.Time, error) {
	if s.now != nil {
		return s.now(), nil
	}
	return s.Store.Now(ctx)
}

func (s *faultyStore) Identity(ctx context.Context) (store.Identity, error) {
	s.asked++
	if s.identity != nil {
		if err := s.identity(); err != nil {
			return store.Identity{}, err
		}
	}
	identity, err := s.Store.Identity(ctx)
	identity.Epoch += s.epoch
	return identity, err
}

func (s *faultyStore) Commit(ctx context.Context, c store.Change) ([]store.Revision, error) {
	s.commits++
	if s.commit != nil {
		if err := s.commit(); err != nil {
			return nil, err
		}
	}
	if c.Of != (store.Identity{}) {
		c.Of.Epoch -= s.epoch
	}
	return s.Store.Commit(ctx, c)
}

// newFaulty returns a fleet in a store of its own.
func newFaulty(t *testing.T, c *clock) (*Fleet, *faultyStore) {
	t.Helper()
	file, err := store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "store", "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	s := &faultyStore{Store: file}
	began := c.Now()
	f, err := OpenFleet(t.Context(), FleetOptions{
		Store: s, Clock: c.Now, Elapsed: func() time.Duration { return c.Now().Sub(began) }, Log: slog.New(slog.DiscardHandler),
		Progress: func() {
			if s.progress != nil {
				s.progress()
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return f, s
}

// waiting has hosts say what is not in the store yet.
func (f *Fleet) waiting(hosts int, now time.Time) {
	for i := range hosts {
		e := fleet.Entry{Host: rollout.Host{ID: rollout.ParseHostID(hostUUID(i)), FirstSeen: now, LastSeen: now}, Secret: [16]byte{1}}
		f.table.Get(e.ID, &e)
		e.LastSeen = now
		f.table.Put(&e)
		f.mark(e.ID)
	}
}

// The store is away, and many hosts have said what it does not have yet: a tick asks it once, and not for each of them. A tick
// that tries for minutes looks like one that hangs.
func TestATickAsksAStoreThatIsAwayOnce(t *testing.T) {
	errAway := errors.New("the store is away")
	away := func() error { return errAway }
	for name, c := range map[string]struct {
		identity, commit func() error
		asked, commits   int
	}{
		"all of it is away":     {away, away, 1, 0},
		"it takes no change":    {nil, away, 1, 1},
		"it is there all right": {nil, nil, 1, 500/hostsAtOnce + 2}, // with that of who was seen
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			f, s := newFaulty(t, clock)
			f.waiting(500, clock.Now())
			s.identity, s.commit, s.asked = c.identity, c.commit, 0
			err := f.Tick(t.Context())
			if s.asked != c.asked || s.commits != c.commits || (err == nil) != (c.commit == nil) {
				t.Errorf("it was asked %d times and took %d changes, %v; want %d and %d", s.asked, s.commits, err, c.asked, c.commits)
			}
		})
	}
}

// The store is slow, and more hosts have changed than it takes in a minute: a tick ends in time, for others want to be heard, and
// the next ones write the rest.
func TestATickEndsInTime(t *testing.T) {
	const batches = 12
	clock := newClock()
	f, s := newFaulty(t, clock)
	f.waiting(batches*hostsAtOnce, clock.Now())
	s.commit = func() error { clock.pass(flushTime - time.Second); return nil }
	for ticks := 1; len(f.dirty) > 0; ticks++ {
		before, began := len(f.dirty), clock.Now()
		if err := f.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := clock.Now().Sub(began); took > 4*flushTime {
			t.Fatalf("tick %d took %s", ticks, took)
		}
		if len(f.dirty) == before {
			t.Fatalf("tick %d has written nothing, and %d hosts wait", ticks, before)
		}
	}
	items, _, err := s.List(t.Context(), hostPrefix)
	if err != nil || len(items) != batches*hostsAtOnce {
		t.Errorf("%d hosts are in the store, %v", len(items), err)
	}
}

// Hosts whose records nobody can read keep no other host from being written, and other servers hear of who has reported.
func TestATickWritesBesideRecordsThatCannotBeRead(t *testing.T) {
	const bad, all = 40, 42
	clock := newClock()
	f, s := newFaulty(t, clock)
	f.waiting(bad, clock.Now())
	if err := f.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range bad {
		key := HostKey(rollout.ParseHostID(hostUUID(i)))
		item, err := s.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), key, []byte("this is no host"), item.Revision); err != nil {
			t.Fatal(err)
		}
	}
	f.waiting(all, clock.Now())
	for range 4 {
		clock.pass(time.Minute)
		if err := f.Tick(t.Context()); err == nil {
			t.Error("nobody hears that reports of hosts cannot be kept")
		}
		if len(f.dirty) != bad {
			t.Errorf("%d hosts wait to be written; want %d", len(f.dirty), bad)
		}
	}
	if f.isMute() {
		t.Error("the server takes no report any more")
	}
}

// A large store is read for minutes after a failover, or after another server has written many hosts: it is said meanwhile that the tick
// goes on.
func TestALongTickSaysThatItGoesOn(t *testing.T) {
	const hosts = 5000
	for name, large := range map[string]func(t *testing.T, s *faultyStore){
		"all of it": func(_ *testing.T, s *faultyStore) { s.epoch++ },
		"changes": func(t *testing.T, s *faultyStore) {
			items, _, err := s.List(t.Context(), hostPrefix)
			if err != nil {
				t.Fatal(err)
			}
			for writes := range slices.Chunk(items, hostsAtOnce) {
				var change store.Change
				for _, item := range writes {
					change.Writes = append(change.Writes, store.Write{Key: item.Key, Value: item.Value, Based: item.Revision})
				}
				if _, err := s.Store.Commit(t.Context(), change); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			f, s := newFaulty(t, clock)
			f.waiting(hosts, clock.Now())
			if err := f.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
			large(t, s)
			clock.pass(time.Minute)
			began, last, longest := clock.Now(), clock.Now(), time.Duration(0)
			s.progress = func() { longest, last = max(longest, clock.Now().Sub(last)), clock.Now() }
			s.read = func() { clock.pass(20 * time.Millisecond) }
			if err := f.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.progress()
			if took := clock.Now().Sub(began); took < time.Minute || longest > 45*time.Second {
				t.Errorf("the tick took %s, and was silent for %s of it", took, longest)
			}
		})
	}
}
