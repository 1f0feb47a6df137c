package fleet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
)

var noon = time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)

func id(i int) rollout.HostID {
	return rollout.ParseHostID(fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i*7919))
}

// random is an entry with any of its fields set.
func random(r *rand.Rand, i int) Entry {
	some := func(n int) string { return []string{"", "a", "b", "17.2.0", "17.2.1"}[r.IntN(min(n, 5))] }
	at := func() time.Time { return noon.Add(time.Duration(r.IntN(100_000)) * time.Second) }
	e := Entry{Host: rollout.Host{
		ID: id(i), Group: some(5), Version: rollout.Semver(some(5)), Edition: some(5), Arch: some(5), Hostname: strings.Repeat("n", r.IntN(254)),
		Pinned: r.IntN(2) == 0, Disabled: r.IntN(2) == 0, Unhealthy: r.IntN(2) == 0, Cloned: r.IntN(2) == 0, FirstSeen: at(), LastSeen: at(),
	}, Token: some(5), Sequence: r.Uint32(), Burst: uint8(r.IntN(30)), Revision: r.Int64()}
	if r.IntN(2) == 0 {
		e.Told = rollout.Event{Target: "17.2.1", At: at()}
		e.Begun = rollout.Event{Target: "17.2.2", At: at()}
		e.UpdaterID, e.Alternated = id(i+1), at()
	}
	if r.IntN(3) == 0 {
		e.Failed = rollout.Failure{Event: rollout.Event{Target: "17.2.1", At: at()}, Error: some(5) + fmt.Sprint(r.IntN(50)), Outcome: at().Add(time.Nanosecond)}
	}
	for k := range e.Secret {
		e.Secret[k] = byte(r.Uint32())
	}
	for k := range e.Boots {
		e.Boots[k] = r.Uint32()
	}
	return e
}

// A table says what a map of entries would.
func TestATableIsLikeAMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	table, model := New(Limits{Hosts: 100_000, Words: 1000}), make(map[rollout.HostID]Entry)
	for step := range 30_000 {
		e := random(r, r.IntN(3000))
		if err := table.Put(&e); err != nil {
			t.Fatal(err)
		}
		model[e.ID] = e
		if step%5000 == 4999 {
			gone := func(e *Entry) bool { return e.ID[0] == 0 && e.ID[3]%7 == 3 }
			want := 0
			for id, e := range model {
				if gone(&e) {
					delete(model, id)
					want++
				}
			}
			if got := table.Forget(gone); got != want {
				t.Fatalf("forgot %d hosts; want %d", got, want)
			}
		}
	}
	if table.Len() != len(model) {
		t.Fatalf("%d hosts; want %d", table.Len(), len(model))
	}
	view, seen := table.View(), 0
	for h := range view.All() {
		seen++
		want := model[h.ID]
		if !reflect.DeepEqual(*h, want.Host) {
			t.Fatalf("%+v\n%+v", *h, want.Host)
		}
	}
	if seen != len(model) {
		t.Errorf("%d of %d hosts are gone through", seen, len(model))
	}
	table.Seen(0, func(id *rollout.HostID, last time.Time, sequence uint32) bool {
		if e := model[*id]; !last.Equal(e.LastSeen) || sequence != e.Sequence {
			t.Fatalf("%s was seen at %v with %d: %+v", id, last, sequence, e)
		}
		seen--
		return true
	})
	if seen != 0 {
		t.Errorf("of %d hosts it is not said when they were seen", seen)
	}
	for i := range 4000 {
		var got Entry
		want, there := model[id(i)]
		if known := table.Get(id(i), &got); known != there || known && !reflect.DeepEqual(got, want) {
			t.Fatalf("%t %+v\n%t %+v", known, got, there, want)
		}
		if h := view.Host(id(i)); (h != nil) != there || h != nil && !reflect.DeepEqual(*h, want.Host) {
			t.Fatalf("%+v\n%+v", h, want)
		}
	}
}

// What hosts make up is bounded, and a verdict is kept whatever its words.
func TestATableIsBounded(t *testing.T) {
	table := New(Limits{Hosts: 10, Words: 5})
	put := func(i int, edit func(*Entry)) error {
		e := Entry{Host: rollout.Host{ID: id(i), Group: "dev", Version: "17.2.0", Hostname: fmt.Sprint(i)}}
		if edit != nil {
			edit(&e)
		}
		return table.Put(&e)
	}
	for i := range 10 {
		if err := put(i, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(10, nil); !errors.Is(err, ErrFull) {
		t.Errorf("one host more: %v", err)
	}
	full := 0
	for i := range 100 {
		if put(1, func(e *Entry) { e.Group = fmt.Sprint("group ", i) }) != nil {
			full++
		}
	}
	var e Entry
	if table.Get(id(1), &e); full != 96 || e.Group != "group 3" {
		t.Errorf("%d names of groups were refused, and the last is %s", full, e.Group)
	}
	for i := range 100 {
		failed := func(e *Entry) {
			e.Failed = rollout.Failure{Event: rollout.Event{Target: "17.2.1", At: noon}, Error: fmt.Sprint("error ", i), Outcome: noon}
		}
		if err := put(2, failed); err != nil {
			t.Fatal(err)
		}
		if table.Get(id(2), &e); e.Failed.Target != "17.2.1" || e.Failed.Error == "" {
			t.Fatalf("%+v", e.Failed)
		}
	}
	if e.Failed.Error != manyErrors {
		t.Errorf("%q", e.Failed.Error)
	}
	// What nobody says any more makes room.
	table.Forget(func(*Entry) bool { return false })
	if err := put(1, func(e *Entry) { e.Group = "another" }); err != nil {
		t.Error(err)
	}
}

// Hosts that change their names do not fill the memory.
func TestNamesThatChangeAreDropped(t *testing.T) {
	table := New(Limits{Hosts: 1000, Words: 10})
	for i := range 200_000 {
		e := Entry{Host: rollout.Host{ID: id(i % 100), Hostname: fmt.Sprintf("%0250d", i)}}
		if err := table.Put(&e); err != nil {
			t.Fatal(err)
		}
	}
	if got := table.names.size(); got > 3<<20 {
		t.Errorf("the names take %d bytes", got)
	}
	var e Entry
	if table.Get(id(99), &e); e.Hostname != fmt.Sprintf("%0250d", 199_999) {
		t.Errorf("%s", e.Hostname)
	}
}

// A host takes little memory.
func TestTheMemoryOfAHost(t *testing.T) {
	const hosts, limit = 200_000, 160
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	table := New(Limits{Hosts: hosts, Words: 1000})
	for i := range hosts {
		e := Entry{Host: rollout.Host{
			ID: id(i), UpdaterID: id(i), Hostname: fmt.Sprintf("ip-10-%d-%d.internal", i/256, i%256), Group: fmt.Sprint("group-", i%20), Version: "17.2.0",
			Edition: "enterprise", Arch: "amd64", FirstSeen: noon, LastSeen: noon,
		}, Token: "web"}
		if err := table.Put(&e); err != nil {
			t.Fatal(err)
		}
	}
	took := float64(heap()-before) / hosts
	t.Logf("MEASURED: %.0f bytes a host", took)
	if took > limit {
		t.Errorf("a host takes %.0f bytes; want at most %d", took, limit)
	}
	runtime.KeepAlive(table)
}
