package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestAChangeIsBasedOnWhatIsThere(t *testing.T) {
	ctx := t.Context()
	s := openStore(t, newPath(t))
	first := put(t, s, "a", "1", None)
	other := put(t, s, "b", "1", None)
	second := put(t, s, "a", "2", first)
	if first != 1 || other != 2 || second != 3 {
		t.Errorf("the revisions are %d, %d, %d; want 1, 2, 3", first, other, second)
	}
	deleteOf := func(key string) func(Revision) error {
		return func(based Revision) error { return s.Delete(ctx, key, based) }
	}
	putOf := func(key string) func(Revision) error {
		return func(based Revision) error { _, err := s.Put(ctx, key, []byte("x"), based); return err }
	}
	for _, tc := range []struct {
		name   string
		change func(Revision) error
		based  Revision
		want   ConflictError
	}{
		{"a new one where there is one", putOf("a"), None, ConflictError{"a", None, second}},
		{"a change of what has changed", putOf("a"), first, ConflictError{"a", first, second}},
		{"a change on the revision of another key", putOf("a"), other, ConflictError{"a", other, second}},
		{"a change of what is not there", putOf("c"), first, ConflictError{"c", first, None}},
		{"a deletion of what has changed", deleteOf("a"), first, ConflictError{"a", first, second}},
		{"a deletion of what is not there", deleteOf("c"), first, ConflictError{"c", first, None}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.change(tc.based)
			if conflict, ok := errors.AsType[*ConflictError](err); !ok || *conflict != tc.want {
				t.Errorf("got %v; want %v", err, &tc.want)
			}
		})
	}
	if item, err := s.Get(ctx, "a"); err != nil || string(item.Value) != "2" || item.Revision != second {
		t.Errorf("after the conflicts: %+v, %v", item, err)
	}
	if _, at, err := s.List(ctx, ""); at != second || err != nil {
		t.Errorf("after the conflicts the store has revision %d, %v; want %d", at, err, second)
	}
}

func TestWhatWasDeletedComesBackWithANewRevision(t *testing.T) {
	ctx := t.Context()
	s := openStore(t, newPath(t))
	first := put(t, s, "a", "1", None)
	if err := s.Delete(ctx, "a", first); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ctx, "a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("after the deletion: %v", err)
	}
	if _, at, err := s.List(ctx, ""); at != first+1 || err != nil {
		t.Errorf("after the deletion the store has revision %d, %v; a reader would not see it", at, err)
	}
	if again := put(t, s, "a", "1", None); again != first+2 {
		t.Errorf("made again it has revision %d; want %d", again, first+2)
	}
}

func TestListIsByPrefixAndInOrder(t *testing.T) {
	s := openStore(t, newPath(t))
	for _, key := range []string{"b", "a/2", "a/1", "a", "a0", "ä/1", "a/%", "a/_"} {
		put(t, s, key, "of "+key, None)
	}
	for prefix, want := range map[string]string{
		"":      "a a/% a/1 a/2 a/_ a0 b ä/1",
		"a/":    "a/% a/1 a/2 a/_",
		"a/%":   "a/%",
		"ä":     "ä/1",
		"c":     "",
		"a/1/x": "",
	} {
		items, at, err := s.List(t.Context(), prefix)
		if err != nil || at != 8 {
			t.Errorf("%q: revision %d, %v", prefix, at, err)
		}
		var keys []string
		for _, item := range items {
			keys = append(keys, item.Key)
			if string(item.Value) != "of "+item.Key || item.Revision == None {
				t.Errorf("%+v", item)
			}
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("%q lists %q; want %q", prefix, got, want)
		}
	}
}

// Who goes on from the revision that is returned sees every change once, and those of
// others never again.
func TestChangesAreSeenOnceAndInOrder(t *testing.T) {
	s := openStore(t, newPath(t))
	for _, key := range []string{"b/1", "a/2", "a/1", "b/2", "a/3", "b/3"} {
		put(t, s, key, "", None)
	}
	put(t, s, "a/2", "again", 2)
	put(t, s, "b/1", "again", 1)
	since := None
	for _, step := range []struct {
		keys string
		upTo Revision
	}{{"a/1 a/3", 5}, {"a/2", 8}, {"", 8}} {
		items, upTo, err := s.Changes(t.Context(), "a/", since, 2)
		var keys []string
		for _, item := range items {
			keys = append(keys, item.Key)
		}
		if got := strings.Join(keys, " "); err != nil || got != step.keys || upTo != step.upTo {
			t.Errorf("since %d: %q up to %d, %v; want %+v", since, got, upTo, err, step)
		}
		since = upTo
	}
}

func TestWhatCannotBeKeptIsRefused(t *testing.T) {
	s := openStore(t, newPath(t))
	for name, key := range map[string]string{"no key": "", "a long key": strings.Repeat("k", MaxKey+1), "control characters": "a\x00b", "bytes": "a\xff"} {
		if _, err := s.Put(t.Context(), key, nil, None); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := s.Put(t.Context(), "a", make([]byte, MaxValue+1), None); err == nil {
		t.Error("a value of any size is taken")
	}
	if _, err := s.Put(t.Context(), strings.Repeat("k", MaxKey), make([]byte, MaxValue), None); err != nil {
		t.Error(err)
	}
	if err := s.Delete(t.Context(), "a", None); err == nil {
		t.Error("a deletion without a revision is taken")
	}
	put(t, s, "empty", "", None)
	if item, err := s.Get(t.Context(), "empty"); err != nil || len(item.Value) != 0 {
		t.Errorf("an empty value: %+v, %v", item, err)
	}
}

func TestAWaitEndsWithItsCaller(t *testing.T) {
	s := openStore(t, newPath(t))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("had enough"))
	if _, err := s.Get(ctx, "a"); err == nil || err.Error() != "had enough" {
		t.Errorf("got %v", err)
	}
	put(t, s, "a", "1", None) // what was interrupted is not in the way
}
