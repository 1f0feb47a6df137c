// Package conformance holds the promises of every store.Store, as tests that are the same for each kind of
// store. A kind of store calls Run from a test of its own.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/find/store"
)

// Copies tests the way from one kind of store to another. Each of the stores is new.
func Copies(t *testing.T, from, to, third store.Store) {
	source, target := from.(store.Movable), to.(store.Movable)
	soon := time.Unix(2_000_000_000, 0)
	put(t, from, "a", "1", store.None)
	gone := put(t, from, "gone", "1", store.None)
	for i := range 1200 {
		put(t, from, fmt.Sprintf("many/%04d", i), fmt.Sprint(i), store.None)
	}
	audit := store.Audit{Time: soon, Who: "uid 0", What: "a change", Why: "a test"}
	for _, w := range []store.Write{{Key: "gone", Based: gone, Do: store.Remove}, {Key: "expires", Value: []byte{0, 255}, Expires: soon}} {
		if _, err := from.Commit(ctx, store.Change{Writes: []store.Write{w}, Audit: audit}); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Copy(ctx, source, target); err != nil {
		t.Fatal(err)
	}
	same(t, from, to)
	_, at, _ := from.List(ctx, "")
	_, now, _ := to.List(ctx, "")
	if now < at+store.EpochStep {
		t.Errorf("the store has the revision %d, and the copy %d", at, now)
	}
	if _, _, err := to.Changes(ctx, "", at, 10); !errors.Is(err, store.ErrTooOld) {
		t.Errorf("who has read the one store goes on in the other: %v", err)
	}
	if err := store.Copy(ctx, source, target); !errors.Is(err, store.ErrNotEmpty) {
		t.Errorf("a copy onto a copy: %v", err)
	}
	broken := errors.New("it breaks off")
	cut := store.Archive{ID: "another", Revision: 5, Each: func(f func(store.Archived) error) error {
		for i := range 700 {
			if err := f(store.Archived{Item: store.Item{Key: fmt.Sprintf("k%04d", i), Value: []byte("x"),
				Revision: store.Revision(i + 1)}}); err != nil {
				return err
			}
		}
		return broken
	}}
	if err := third.(store.Movable).Import(ctx, cut); !errors.Is(err, broken) {
		t.Errorf("a copy that breaks off: %v", err)
	}
	if items, at, err := third.List(ctx, ""); err != nil || len(items) != 0 || at != store.None {
		t.Errorf("of a copy that broke off %d items are there, of revision %d: %v", len(items), at, err)
	}
	if n, err := to.Purge(ctx, soon); n != 1 || err != nil {
		t.Errorf("of the copy %d items have expired, %v; want 1", n, err)
	}
}

// same compares the content of two stores.
func same(t *testing.T, one, other store.Store) {
	t.Helper()
	a, _, err := one.List(ctx, "")
	b, _, otherErr := other.List(ctx, "")
	if errors.Join(err, otherErr) != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("the copy has %d items, of %d, or other ones: %v, %v", len(b), len(a), err, otherErr)
	}
	x, err := one.History(ctx, store.MaxHistory)
	y, otherErr := other.History(ctx, store.MaxHistory)
	if errors.Join(err, otherErr) != nil || !reflect.DeepEqual(x, y) {
		t.Errorf("the copy has the history %+v, of %+v: %v, %v", y, x, err, otherErr)
	}
	i, err := one.Identity(ctx)
	j, otherErr := other.Identity(ctx)
	if errors.Join(err, otherErr) != nil || i.ID != j.ID {
		t.Errorf("the copy has the identity %q, of %q: %v, %v", j.ID, i.ID, err, otherErr)
	}
}

// Run tests a kind of store. open returns two handles of a new, empty store, as two servers have.
func Run(t *testing.T, open func(t *testing.T) (one, other store.Store)) {
	for name, test := range map[string]func(*testing.T, store.Store, store.Store){
		"revisions grow, and are the items' own":         revisions,
		"a change is made as a whole or not at all":      wholeOrNot,
		"of two changes on the same base one is made":    oneWins,
		"changes are told, with what was removed":        changes,
		"changes are told in parts":                      changesInParts,
		"a list is of one moment and of one prefix":      lists,
		"what has expired goes, and nothing else":        expiry,
		"the history has what was done and nothing else": history,
		"a store has an identity and a clock":            identity,
		"what no store can keep is refused":              refused,
		"a change after its deadline is not made":        deadline,
		"a change for another store is not made":         replaced,
	} {
		t.Run(name, func(t *testing.T) {
			one, other := open(t)
			test(t, one, other)
		})
	}
}

var ctx = context.Background()

func put(t *testing.T, s store.Store, key, value string, based store.Revision) store.Revision {
	t.Helper()
	at, err := s.Put(ctx, key, []byte(value), based)
	if err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	return at
}

func conflict(t *testing.T, err error, key string, found store.Revision) {
	t.Helper()
	if c, ok := errors.AsType[*store.ConflictError](err); !ok || c.Key != key || c.Found != found {
		t.Errorf("got %v; want a conflict of %s with revision %d", err, key, found)
	}
}

func revisions(t *testing.T, one, other store.Store) {
	last := store.None
	for i := range 5 {
		at := put(t, []store.Store{one, other}[i%2], "a", fmt.Sprint(i), last)
		if at <= last {
			t.Errorf("revision %d follows %d", at, last)
		}
		last = at
	}
	b := put(t, other, "b", "", store.None)
	if item, err := one.Get(ctx, "a"); err != nil || string(item.Value) != "4" || item.Revision != last || item.Key != "a" {
		t.Errorf("%+v, %v", item, err)
	}
	if err := one.Delete(ctx, "a", last); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Get(ctx, "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("what was removed: %v", err)
	}
	if at := put(t, one, "a", "again", store.None); at <= b {
		t.Errorf("a key that was removed and made again has revision %d, after %d", at, b)
	}
	_, err := other.Put(ctx, "a", nil, last)
	if item, _ := one.Get(ctx, "a"); true {
		conflict(t, err, "a", item.Revision)
	}
	_, err = other.Put(ctx, "b", nil, store.None)
	conflict(t, err, "b", b)
	conflict(t, other.Delete(ctx, "c", 1), "c", store.None)
}

func wholeOrNot(t *testing.T, one, other store.Store) {
	a, b := put(t, one, "a", "1", store.None), put(t, one, "b", "1", store.None)
	write := func(based store.Revision) error {
		_, err := other.Commit(ctx, store.Change{Audit: store.Audit{Who: "somebody", What: "a change"}, Writes: []store.Write{
			{Key: "new", Value: []byte("x")}, {Key: "a", Based: a, Do: store.Keep}, {Key: "b", Based: based, Do: store.Remove},
		}})
		return err
	}
	before, at, err := one.List(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	conflict(t, write(b+1000), "b", b)
	after, now, err := one.List(ctx, "")
	records, _ := one.History(ctx, 10)
	if err != nil || !reflect.DeepEqual(before, after) || now != at || len(records) != 0 {
		t.Errorf("a change that was refused has made %+v of %+v, %d records, revision %d of %d: %v", after, before, len(records), now, at, err)
	}
	if err := write(b); err != nil {
		t.Fatal(err)
	}
	items, _, err := one.List(ctx, "")
	if err != nil || len(items) != 2 || items[0].Revision != a || items[1].Key != "new" {
		t.Errorf("%+v, %v", items, err)
	}
}

func oneWins(t *testing.T, one, other store.Store) {
	at := put(t, one, "count", "0", store.None)
	var wins sync.Map
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			s := []store.Store{one, other}[i%2]
			for n := 0; n < 10; {
				item, err := s.Get(ctx, "count")
				if err != nil {
					t.Error(err)
					return
				}
				next, err := s.Put(ctx, "count", []byte(string(item.Value)+"x"), item.Revision)
				if _, lost := errors.AsType[*store.ConflictError](err); lost {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if _, twice := wins.LoadOrStore(next, true); twice {
					t.Errorf("revision %d was given twice", next)
				}
				n++
			}
		})
	}
	all.Wait()
	if item, err := one.Get(ctx, "count"); err != nil || len(item.Value) != 1+80 || item.Revision <= at {
		t.Errorf("of 80 changes %d are there: %v", len(item.Value)-1, err)
	}
}

// changedSince returns the changes since a revision, as words.
func changedSince(t *testing.T, s store.Store, prefix string, since store.Revision, limit int) (words []string, upTo store.Revision) {
	t.Helper()
	items, upTo, err := s.Changes(ctx, prefix, since, limit)
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range items {
		if item.Revision <= since || item.Revision > upTo {
			t.Errorf("revision %d is told of those from %d to %d", item.Revision, since, upTo)
		}
		word := item.Key + "=" + string(item.Value)
		if item.Removed {
			word = "-" + item.Key
		}
		words = append(words, word)
	}
	return words, upTo
}

func changes(t *testing.T, one, other store.Store) {
	a, b := put(t, one, "x/a", "1", store.None), put(t, one, "x/b", "1", store.None)
	put(t, one, "y/c", "1", store.None)
	all, since := changedSince(t, other, "x/", store.None, 10)
	if !slices.Equal(all, []string{"x/a=1", "x/b=1"}) {
		t.Errorf("from the beginning: %v", all)
	}
	want := func(words ...string) {
		t.Helper()
		var got []string
		got, since = changedSince(t, other, "x/", since, 10)
		if !slices.Equal(got, words) {
			t.Errorf("told are %v; want %v", got, words)
		}
	}
	want()
	a = put(t, other, "x/a", "2", a) // a server's own changes, too
	want("x/a=2")
	if err := one.Delete(ctx, "x/b", b); err != nil {
		t.Fatal(err)
	}
	want("-x/b")
	want()
	b = put(t, one, "x/b", "2", store.None)
	if err := one.Delete(ctx, "x/b", b); err != nil {
		t.Fatal(err)
	}
	b = put(t, one, "x/b", "3", store.None)
	want("x/b=3") // it is there again, and Changes must return nothing else
	if _, err := one.Commit(ctx, store.Change{Writes: []store.Write{{Key: "x/a", Based: a, Do: store.Remove}, {Key: "x/b", Based: b,
		Do: store.Remove}, {Key: "x/d", Value: []byte("1")}}}); err != nil {
		t.Fatal(err)
	}
	got, _ := changedSince(t, other, "x/", since, 10)
	if slices.Sort(got); !slices.Equal(got, []string{"-x/a", "-x/b", "x/d=1"}) {
		t.Errorf("one change of three items: %v", got)
	}
	put(t, one, "x/soon", "1", store.None)
	_, since = changedSince(t, other, "x/", store.None, 100)
	if _, err := one.Commit(ctx, store.Change{Writes: []store.Write{{Key: "x/short", Value: []byte("1"), Expires: time.Unix(1000,
		0)}}}); err != nil {
		t.Fatal(err)
	}
	want("x/short=1")
	if n, err := one.Purge(ctx, time.Unix(2000, 0)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	want("-x/short")
}

func changesInParts(t *testing.T, one, other store.Store) {
	follower := follower{t: t, of: other, known: make(map[string]string), since: store.None}
	at := make(map[int]store.Revision)
	for round := range 12 {
		change := store.Change{}
		var keys []int
		for i := range 20 {
			if (i+round)%3 == 0 {
				continue
			}
			w := store.Write{Key: fmt.Sprint("k", i), Value: []byte(fmt.Sprint(round)), Based: at[i]}
			if (i*round)%4 == 1 && at[i] != store.None {
				w.Do, w.Value = store.Remove, nil
			}
			change.Writes, keys = append(change.Writes, w), append(keys, i)
		}
		revisions, err := one.Commit(ctx, change)
		if err != nil {
			t.Fatal(err)
		}
		for n, i := range keys {
			at[i] = revisions[n]
		}
		follower.take(1 + round)
		want := make(map[string]string)
		items, _, err := one.List(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			want[item.Key] = string(item.Value)
		}
		if !reflect.DeepEqual(follower.known, want) {
			t.Fatalf("round %d: who follows the changes knows %v; there is %v", round, follower.known, want)
		}
	}
}

// follower learns the items below k from the changes of a store.
type follower struct {
	t     *testing.T
	of    store.Store
	known map[string]string
	since store.Revision
}

// take reads all changes since the last time, limit at a time.
func (f *follower) take(limit int) {
	f.t.Helper()
	for {
		words, upTo := changedSince(f.t, f.of, "k", f.since, limit)
		for _, w := range words {
			if key, removed := strings.CutPrefix(w, "-"); removed {
				delete(f.known, key)
				continue
			}
			key, value, _ := strings.Cut(w, "=")
			f.known[key] = value
		}
		if f.since = upTo; len(words) < limit {
			return
		}
	}
}

func lists(t *testing.T, one, other store.Store) {
	for _, key := range []string{"b/1", "a", "b/2", "b", "bb", "b/%", "b/é"} {
		put(t, one, key, key, store.None)
	}
	for prefix, want := range map[string]string{"b/": "b/% b/1 b/2 b/é", "": "a b b/% b/1 b/2 b/é bb", "c": "", "b/%": "b/%"} {
		items, at, err := other.List(ctx, prefix)
		var scanned, keys []string
		scannedAt, scanErr := other.Scan(ctx, prefix, func(item store.Item) bool { scanned = append(scanned, item.Key); return true })
		for _, item := range items {
			keys = append(keys, item.Key)
			if string(item.Value) != item.Key {
				t.Errorf("%+v", item)
			}
		}
		if strings.Join(keys, " ") != want || !slices.Equal(keys, scanned) || at != scannedAt || errors.Join(err, scanErr) != nil {
			t.Errorf("%q: %v and %v, revisions %d and %d: %v, %v; want %s", prefix, keys, scanned, at, scannedAt, err, scanErr, want)
		}
	}
	few := 0
	if _, err := other.Scan(ctx, "", func(store.Item) bool { few++; return few < 3 }); err != nil || few != 3 {
		t.Errorf("%d items were gone through, %v; want 3", few, err)
	}
}

func expiry(t *testing.T, one, other store.Store) {
	noon := time.Unix(1_750_000_000, 0)
	for key, expires := range map[string]time.Time{"never": {}, "before": noon.Add(-time.Second), "then": noon,
		"after": noon.Add(time.Second)} {
		if _, err := one.Commit(ctx, store.Change{Writes: []store.Write{{Key: key, Value: []byte("x"), Expires: expires}}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := other.Get(ctx, "before"); err != nil {
		t.Errorf("what has expired, before it is removed: %v", err)
	}
	if n, err := other.Purge(ctx, noon); n != 2 || err != nil {
		t.Errorf("%d were removed, %v; want 2", n, err)
	}
	items, _, err := one.List(ctx, "")
	if err != nil || len(items) != 2 || items[0].Key != "after" || items[1].Key != "never" {
		t.Errorf("%+v, %v", items, err)
	}
}

func history(t *testing.T, one, other store.Store) {
	noon := time.Date(2025, 6, 2, 12, 0, 0, 5, time.UTC)
	put(t, one, "nobody", "1", store.None)
	for i := range 5 {
		audit := store.Audit{Time: noon.Add(time.Duration(i) * time.Second), Who: "uid 0", What: fmt.Sprint("change ", i), Why: "a test"}
		writes := []store.Write{{Key: fmt.Sprint("k", i), Value: []byte("x")}, {Key: fmt.Sprint("beside k", i), Unrecorded: true}}
		if _, err := one.Commit(ctx, store.Change{Audit: audit, Writes: writes}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := other.Get(ctx, "beside k0"); err != nil {
		t.Errorf("what leaves no record is not there: %v", err)
	}
	records, err := other.History(ctx, 3)
	if err != nil || len(records) != 3 {
		t.Fatalf("%+v, %v", records, err)
	}
	for n, r := range records {
		i := 4 - n
		what := r.What == fmt.Sprint("change ", i) && r.Key == fmt.Sprint("k", i)
		created := r.From == store.None && r.To != store.None
		if !what || !created || !r.Time.Equal(noon.Add(time.Duration(i)*time.Second)) {
			t.Errorf("record %d is %+v", n, r)
		}
	}
}

func identity(t *testing.T, one, other store.Store) {
	a, err := one.Identity(ctx)
	if err != nil || a.ID == "" {
		t.Fatalf("%+v, %v", a, err)
	}
	if b, err := other.Identity(ctx); err != nil || b.ID != a.ID {
		t.Errorf("one handle says %+v, the other one %+v, %v", a, b, err)
	}
	put(t, other, "a", "1", store.None)
	if again, err := one.Identity(ctx); err != nil || again != a {
		t.Errorf("after a change it is %+v, %v; it was %+v", again, err, a)
	}
	x, err := one.Now(ctx)
	y, otherErr := other.Now(ctx)
	if difference := y.Sub(x); errors.Join(err, otherErr) != nil || difference < 0 || difference > time.Minute {
		t.Errorf("two handles of one store say %s and %s, %v, %v", x, y, err, otherErr)
	}
}

func replaced(t *testing.T, one, _ store.Store) {
	is, err := one.Identity(ctx)
	if err != nil {
		t.Fatal(err)
	}
	write := store.Write{Key: "a", Value: []byte("1")}
	for name, other := range map[string]store.Identity{"another epoch": {ID: is.ID, Epoch: is.Epoch + 1}, "another store": {ID: "another",
		Epoch: is.Epoch}} {
		if _, err := one.Commit(ctx, store.Change{Of: other, Writes: []store.Write{write}}); !errors.Is(err, store.ErrReplaced) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := one.Get(ctx, "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it is there: %v", err)
	}
	if _, err := one.Commit(ctx, store.Change{Of: is, Writes: []store.Write{write}}); err != nil {
		t.Error(err)
	}
}

func refused(t *testing.T, one, _ store.Store) {
	for name, w := range map[string]store.Write{
		"no key":                      {},
		"a key that is too long":      {Key: strings.Repeat("k", store.MaxKey+1)},
		"a key that drives terminals": {Key: "a\x1bb"},
		"a key that is not UTF-8":     {Key: "a\xff"},
		"a value that is too large":   {Key: "a", Value: make([]byte, store.MaxValue+1)},
		"a removal of nothing":        {Key: "a", Do: store.Remove},
	} {
		if _, err := one.Commit(ctx, store.Change{Writes: []store.Write{{Key: "sound", Value: []byte("x")}, w}}); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
	largest := store.Write{Key: strings.Repeat("k", store.MaxKey), Value: make([]byte, store.MaxValue)}
	if _, err := one.Commit(ctx, store.Change{Writes: []store.Write{largest}}); err != nil {
		t.Error(err)
	}
	if items, _, err := one.List(ctx, ""); err != nil || len(items) != 1 {
		t.Errorf("%d items, %v; want the largest alone", len(items), err)
	}
}

func deadline(t *testing.T, one, other store.Store) {
	now, err := one.Now(ctx)
	if err != nil {
		t.Fatal(err)
	}
	change := store.Change{Writes: []store.Write{{Key: "a", Value: []byte("1")}}, Audit: store.Audit{Who: "somebody"},
		Deadline: now.Add(time.Minute)}
	revisions, err := one.Commit(ctx, change)
	if err != nil {
		t.Fatal(err)
	}
	change.Writes[0].Based, change.Deadline = revisions[0], now.Add(-time.Millisecond)
	if _, err := other.Commit(ctx, change); !errors.Is(err, store.ErrLate) {
		t.Errorf("a change after its deadline: %v", err)
	}
	item, err := one.Get(ctx, "a")
	records, historyErr := one.History(ctx, 10)
	if errors.Join(err, historyErr) != nil || item.Revision != revisions[0] || len(records) != 1 {
		t.Errorf("after a change that came late there is %+v with %d records: %v, %v", item, len(records), err, historyErr)
	}
}
