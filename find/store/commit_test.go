package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
)

func TestACommitIsMadeAsAWholeOrNotAtAll(t *testing.T) {
	ctx := t.Context()
	s := openStore(t, newPath(t))
	a, b := put(t, s, "a", "1", None), put(t, s, "b", "1", None)
	at := func() (list string, revision Revision) {
		items, revision, err := s.List(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range items {
			list += fmt.Sprintf("%s=%s@%d ", i.Key, i.Value, i.Revision)
		}
		return list, revision
	}
	before, head := at()
	for name, last := range map[string]Write{
		"a stale one":                  {Key: "b", Value: []byte("2"), Based: b + 7},
		"an item to keep that changed": {Key: "b", Based: a, Do: Keep},
		"an item that is there":        {Key: "b", Do: Keep},
		"a removal of another one":     {Key: "b", Based: a, Do: Remove},
		"a removal without a revision": {Key: "c", Do: Remove},
		"a value that is too large":    {Key: "c", Value: make([]byte, MaxValue+1)},
	} {
		writes := []Write{{Key: "a", Value: []byte("2"), Based: a}, {Key: "new", Value: []byte("1")}, last}
		if _, err := s.Commit(ctx, Change{Writes: writes, Audit: Audit{Who: "x"}}); err == nil {
			t.Errorf("%s is taken", name)
		}
		if now, revision := at(); now != before || revision != head {
			t.Errorf("%s: there is %s, revision %d", name, now, revision)
		}
	}
	if records, err := s.History(ctx, 10); len(records) > 0 || err != nil {
		t.Errorf("what did not happen is in the history: %v, %v", records, err)
	}
	revisions, err := s.Commit(ctx, Change{Writes: []Write{
		{Key: "a", Value: []byte("2"), Based: a}, {Key: "b", Based: b, Do: Remove}, {Key: "c", Do: Keep}, {Key: "d", Value: []byte("1")},
	}})
	if want := []Revision{3, None, None, 5}; err != nil || !slices.Equal(revisions, want) {
		t.Errorf("revisions %v, %v; want %v", revisions, err, want)
	}
	if now, revision := at(); now != "a=2@3 d=1@5 " || revision != 5 {
		t.Errorf("there is %s, revision %d", now, revision)
	}
}

func TestEveryDecisionIsInTheHistory(t *testing.T) {
	ctx := t.Context()
	path := newPath(t)
	s := openStore(t, path)
	when := time.Date(2025, 5, 28, 11, 22, 41, 924956000, time.UTC)
	audit := Audit{Time: when, Who: "uid 0", What: "suspend", Why: "the release is bad"}
	if _, err := s.Commit(ctx, Change{Writes: []Write{{Key: "a", Value: []byte("1")}, {Key: "z", Do: Keep}}, Audit: audit}); err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", "2", 1) // nobody's decision
	if _, err := s.Commit(ctx, Change{Writes: []Write{{Key: "a", Based: 2, Do: Remove}}, Audit: Audit{Time: when, Who: "engine", What: "expire"}}); err != nil {
		t.Fatal(err)
	}
	want := []HistoryEntry{{Audit{when, "engine", "expire", ""}, "a", 2, None}, {audit, "a", None, 1}}
	for _, s := range []*SQLite{s, openStore(t, path)} {
		if got, err := s.History(ctx, 10); err != nil || !slices.Equal(got, want) {
			t.Errorf("got  %v, %v\nwant %v", got, err, want)
		}
	}
	if got, _ := s.History(ctx, 1); len(got) != 1 || got[0] != want[0] {
		t.Errorf("the newest one: %v", got)
	}
}

func TestTheHistoryIsBounded(t *testing.T) {
	s := openStore(t, newPath(t))
	writes := make([]Write, MaxHistory/2)
	for i := range writes {
		writes[i] = Write{Key: fmt.Sprint(i)}
	}
	based := make([]Revision, len(writes))
	for range 3 {
		for i := range writes {
			writes[i].Based = based[i]
		}
		var err error
		if based, err = s.Commit(t.Context(), Change{Writes: writes, Audit: Audit{Who: "x"}}); err != nil {
			t.Fatal(err)
		}
	}
	records, err := s.History(t.Context(), 2*MaxHistory)
	if err != nil || len(records) != MaxHistory || records[0].To != based[len(based)-1] {
		t.Errorf("%d records, %v", len(records), err)
	}
}

func TestWhatHasExpiredIsPurged(t *testing.T) {
	ctx := t.Context()
	s := openStore(t, newPath(t))
	now := time.Unix(1_700_000_000, 0)
	if _, err := s.Commit(ctx, Change{Writes: []Write{
		{Key: "always"}, {Key: "soon", Expires: now}, {Key: "later", Expires: now.Add(time.Second)},
	}}); err != nil {
		t.Fatal(err)
	}
	// A change without an end takes the end away.
	if _, err := s.Commit(ctx, Change{Writes: []Write{{Key: "kept", Expires: now}}}); err != nil {
		t.Fatal(err)
	}
	put(t, s, "kept", "", 4)
	for _, step := range []struct {
		at      time.Time
		removed int
		head    Revision
	}{{now.Add(-time.Second), 0, 5}, {now, 1, 6}, {now, 0, 6}, {now.Add(time.Hour), 1, 7}} {
		removed, err := s.Purge(ctx, step.at)
		_, head, _ := s.List(ctx, "")
		if err != nil || removed != step.removed || head != step.head {
			t.Errorf("at %s: %d removed, %v, revision %d; want %+v", step.at, removed, err, head, step)
		}
	}
	items, _, _ := s.List(ctx, "")
	if len(items) != 2 || items[0].Key != "always" || items[1].Key != "kept" {
		t.Errorf("left are %v", items)
	}
}

func TestAStoreOfTheFirstSchemaIsTakenOver(t *testing.T) {
	path := newPath(t)
	if err := makeFolder(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	c, err := sqlite3.Open(path)
	if err == nil {
		err = errors.Join(c.Exec(create+fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = 1;
			INSERT INTO resources VALUES ('a', x'31', 7); UPDATE head SET revision = 9`, applicationID)), c.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	for range 3 { // servers that start at once
		go func() {
			s, err := OpenSQLite(t.Context(), path)
			if err == nil {
				err = s.Close()
			}
			done <- err
		}()
	}
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	s := openStore(t, path)
	if item, err := s.Get(t.Context(), "a"); err != nil || string(item.Value) != "1" || item.Revision != 7 {
		t.Errorf("got %+v, %v", item, err)
	}
	if to, err := s.Commit(t.Context(), Change{Writes: []Write{{Key: "a", Based: 7, Expires: time.Now()}}, Audit: Audit{Who: "x"}}); err != nil || to[0] != 10 {
		t.Errorf("a change after it: %v, %v", to, err)
	}
}
