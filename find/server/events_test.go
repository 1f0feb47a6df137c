package server

import (
	"context"
	"errors"
	"slices"
	"testing"

	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/driver"
	"teleport-update/find/store"
)

// postbox notes what an engine hands over.
type postbox struct {
	posted []string
	stored int
}

func (p *postbox) Post(events []rollout.Notice) {
	for _, e := range events {
		p.posted = append(p.posted, e.ID)
	}
}

func (p *postbox) PostStored() { p.stored++ }

// answering is a store that answers to a change as f says, after it was made if f has let it be.
type answering struct {
	store.Store
	f func(commit func() error) error
}

func (a *answering) Commit(ctx context.Context, c store.Change) (revisions []store.Revision, err error) {
	if a.f == nil {
		return a.Store.Commit(ctx, c)
	}
	err = a.f(func() error {
		revisions, err = a.Store.Commit(ctx, c)
		return err
	})
	return revisions, err
}

// The server that has written a change posts its events: those that the store has, and no others.
func TestTheEventsOfAChangeAreHandedOver(t *testing.T) {
	away := errors.New("away")
	for what, tc := range map[string]struct {
		f              func(commit func() error) error
		posted, stored int
	}{
		"a change":                        {nil, 1, 0},
		"a change that was not made":      {func(func() error) error { return away }, 0, 0},
		"a change that nobody knows of":   {func(func() error) error { return &store.UnknownError{Err: away} }, 0, 1},
		"a change without its answer":     {func(commit func() error) error { commit(); return &store.UnknownError{Err: away} }, 0, 1},
		"a conflict, and then the change": {conflictOnce(), 1, 0},
	} {
		w := newStoreWorld(t)
		w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 12}"))
		box, kept := &postbox{}, &answering{Store: w.store}
		c := w.control(newClock(), kept)
		c.driven.Notifier = box
		c.engine = driver.NewEngine(c.driven)
		if _, err := c.stored.Apply(t.Context(), parseAll(t, scheduled), answers.ApplyOptions{Who: "uid 0"}); err != nil {
			t.Fatal(err)
		}
		c.tick()
		kept.f = tc.f
		_, err := c.engine.Order(t.Context(), rollout.Order{Verb: rollout.MarkDone, Groups: []string{"dev"}, Who: "uid 0"}, false)
		if (err != nil) != (tc.posted == 0) {
			t.Fatalf("%s: %v", what, err)
		}
		if len(box.posted) != tc.posted || box.stored != tc.stored {
			t.Errorf("%s: posted are %q, and %d times those of the store; want %d and %d", what, box.posted, box.stored, tc.posted, tc.stored)
		}
		items, _, err := w.store.List(t.Context(), rollout.NoticePrefix)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range box.posted {
			if !slices.ContainsFunc(items, func(i store.Item) bool { return i.Key == rollout.NoticePrefix+id }) {
				t.Errorf("%s: the event %s is not in the store", what, id)
			}
		}
	}
}

func conflictOnce() func(commit func() error) error {
	met := false
	return func(commit func() error) error {
		if !met {
			met = true
			return &store.ConflictError{Key: rollout.KindRollout}
		}
		return commit()
	}
}
