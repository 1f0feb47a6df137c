package fleet

import (
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
		Pinned: r.IntN(2) == 0, Disabled: r.IntN(2) == 0, Unhealthy: r.IntN(2) == 0, Cloned: r.IntN(2) == 0, BelowMinimum: r.IntN(2) == 0, Unsigned: r.IntN(2) == 0, FirstSeen: at(), LastSeen: at(),
	}, Token: some(5), Sequence: r.Uint32(), Floor: r.Uint32(), Burst: uint8(r.IntN(30)), Revision: r.Int64()}
	if r.IntN(2) == 0 {
		e.Told = rollout.Event{Target: "17.2.1", At: at()}
		e.Begun = rollout.Event{Target: "17.2.2", At: at()}
		e.UpdaterID, e.Alternated = id(i+1), at()
	}
	if r.IntN(3) == 0 {
		e.Failed = rollout.Failure{Event: rollout.Event{Target: "17.2.1", At: at()}, Error: some(5) + fmt.Sprint(r.IntN(50)), Outcome: at().Add(time.Nanosecond), Until: at()}
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
	table, model := New(Limits{Words: 1000}), make(map[rollout.HostID]Entry)
	for step := range 30_000 {
		if step%10 == 9 {
			one := id(r.IntN(3000))
			table.Remove(one)
			delete(model, one)
		}
		e := random(r, r.IntN(3000))
		table.Put(&e)
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

// What hosts make up is bounded, a word that the operator has named is kept all the same, and so is a verdict.
func TestATableIsBounded(t *testing.T) {
	table := New(Limits{Words: 5, Named: func(word string) bool { return word == "prod" || word == "17.2.1" }})
	put := func(i int, edit func(*Entry)) (kept Entry) {
		e := Entry{Host: rollout.Host{ID: id(i), Group: "dev", Version: "17.2.0", Edition: "oss", Arch: "amd64", Hostname: fmt.Sprint(i)}}
		edit(&e)
		table.Put(&e)
		table.Get(id(i), &kept)
		return kept
	}
	others := 0
	for i := range 100 {
		kept := put(i, func(e *Entry) {
			e.Group, e.Edition, e.Arch = fmt.Sprint("group ", i), fmt.Sprint("edition ", i), fmt.Sprint("arch ", i)
			e.Version, e.Told.Target, e.Begun.Target = "1.0.0", rollout.Semver(fmt.Sprint("2.0.", i)), rollout.Semver(fmt.Sprint("3.0.", i))
			e.Failed = rollout.Failure{Event: rollout.Event{Target: rollout.Semver(fmt.Sprint("4.0.", i)), At: noon}, Error: fmt.Sprint("error ", i), Outcome: noon}
		})
		if kept.Group == Other {
			others++
		}
		if kept.Failed.Target == "" || kept.Failed.Error == "" || !kept.Failed.At.Equal(noon) {
			t.Fatalf("the verdict of host %d is %+v", i, kept.Failed)
		}
	}
	if others != 95 {
		t.Errorf("%d groups became %s; want 95", others, Other)
	}
	for _, kind := range Kinds {
		if used, limit := table.Fill(kind); used != limit || table.HasRoom(kind) {
			t.Errorf("%d of %d %s are kept", used, limit, kind)
		}
	}
	honest := put(200, func(e *Entry) {
		e.Group, e.Version, e.Told.Target, e.Begun.Target = "prod", "17.2.1", "17.2.1", "17.2.1"
		e.Edition, e.Arch = "enterprise-fips", "arm64"
		e.Failed = rollout.Failure{Event: rollout.Event{Target: "17.2.1", At: noon}, Error: "boom", Outcome: noon}
	})
	words := fmt.Sprint(honest.Group, honest.Version, honest.Told.Target, honest.Begun.Target, honest.Failed.Target, honest.Edition, honest.Arch)
	if strings.Contains(words, Other) {
		t.Errorf("what the operator has named is kept as %s", words)
	}
	if strange := put(201, func(e *Entry) { e.Version = "18.0.0" }); strange.Version != Other || strange.Group != Other {
		t.Errorf("a host beyond the limit is kept as %+v", strange.Host)
	}
	// What nobody says any more makes room at once.
	table.Remove(id(0))
	table.Remove(id(1))
	if kept := put(201, func(e *Entry) { e.Group, e.Version = "another", "18.0.0" }); kept.Group != "another" || kept.Version != "18.0.0" {
		t.Errorf("%+v", kept.Host)
	}
}

// Each word is there as long as a record has it, and no longer: after all hosts are gone, or say the same,
// nothing else is left.
func TestWordsGoWithTheirRecords(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	table := New(Limits{Words: 1000})
	for range 20_000 {
		i := r.IntN(200)
		e := random(r, i)
		e.Group, e.Version = fmt.Sprint("group ", r.IntN(500)), rollout.Semver(fmt.Sprint("1.0.", r.IntN(500)))
		e.Begun.Target, e.Token = rollout.Semver(fmt.Sprint("2.0.", r.IntN(100))), fmt.Sprint("token ", r.IntN(9))
		if r.IntN(10) == 0 {
			table.Remove(e.ID)
		} else {
			table.Put(&e)
		}
		if r.IntN(2000) == 0 {
			table.Forget(func(*Entry) bool { return r.IntN(3) == 0 })
		}
	}
	want := make(map[string]int)
	table.Each(func(e *Entry) bool {
		want["group "+e.Group]++
		want["token "+e.Token]++
		for _, v := range []rollout.Semver{e.Version, e.Told.Target, e.Begun.Target, e.Failed.Target} {
			want["version "+string(v)]++
		}
		want["error "+e.Failed.Error]++
		return true
	})
	for name, w := range map[string]*words{"group": table.groups, "token": table.tokens, "version": table.versions, "error": table.errors} {
		for word, place := range w.places {
			if got := int(w.uses[place]); place > otherPlace && got != want[name+" "+word] {
				t.Errorf("%s %q has %d records; want %d", name, word, got, want[name+" "+word])
			}
		}
	}
	for i := range 200 {
		table.Remove(id(i))
	}
	for name, w := range map[string]*words{"group": table.groups, "token": table.tokens, "version": table.versions, "edition": table.editions, "arch": table.archs, "error": table.errors} {
		if w.used() != 0 || len(w.free) != len(w.list)-2 {
			t.Errorf("of %d places of %s %d words are left, and %d places are free", len(w.list), name, w.used(), len(w.free))
		}
	}
	if table.Len() != 0 || len(table.failures) != 0 {
		t.Errorf("%d hosts and %d failures are left", table.Len(), len(table.failures))
	}
}

// Hosts that change their names do not fill the memory.
func TestNamesThatChangeAreDropped(t *testing.T) {
	table := New(Limits{Words: 10})
	for i := range 200_000 {
		e := Entry{Host: rollout.Host{ID: id(i % 100), Hostname: fmt.Sprintf("%0250d", i)}}
		table.Put(&e)
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
	const hosts, limit = 200_000, 280
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	table := New(Limits{Words: 1000})
	for i := range hosts {
		e := Entry{Host: rollout.Host{
			ID: id(i), UpdaterID: id(i), Hostname: fmt.Sprintf("ip-10-%d-%d.internal", i/256, i%256), Group: fmt.Sprint("group-", i%20), Version: "17.2.0",
			Edition: "enterprise", Arch: "amd64", FirstSeen: noon, LastSeen: noon,
		}, Token: "web"}
		table.Put(&e)
	}
	took := float64(heap()-before) / hosts
	t.Logf("MEASURED: %.0f bytes a host", took)
	if took > limit {
		t.Errorf("a host takes %.0f bytes; want at most %d", took, limit)
	}
	runtime.KeepAlive(table)
}
