package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// feed is the events that a store has, in the order in which they were written. Only what
// is new is read.
type feed struct {
	store    store.Store
	list     []notice
	since    store.Revision
	identity store.Identity
}

// notice is an event without its content.
type notice struct {
	id   string
	kind rollout.NoticeKind
	at   store.Revision
}

// maxChanges is how many events are read at once.
const maxChanges = 500

// read brings the list up to date.
func (f *feed) read(ctx context.Context) error {
	identity, err := f.store.Identity(ctx)
	if err != nil {
		return err
	}
	if identity != f.identity || f.since == store.None {
		return f.readAll(ctx, identity)
	}
	for {
		items, upTo, err := f.store.Changes(ctx, rollout.NoticePrefix, f.since, maxChanges)
		if errors.Is(err, store.ErrTooOld) || err == nil && upTo < f.since {
			return f.readAll(ctx, identity)
		}
		if err != nil {
			return err
		}
		f.take(items)
		more := upTo > f.since && len(items) >= maxChanges
		f.since = upTo
		if !more {
			return nil
		}
	}
}

func (f *feed) readAll(ctx context.Context, identity store.Identity) error {
	items, at, err := f.store.List(ctx, rollout.NoticePrefix)
	if err != nil {
		return err
	}
	f.list = nil
	f.take(items)
	f.since, f.identity = at, identity
	return nil
}

// take makes another list: goroutines may have the one before.
func (f *feed) take(items []store.Item) {
	if len(items) == 0 {
		return
	}
	next := slices.Clone(f.list)
	for _, item := range items {
		id := item.Key[len(rollout.NoticePrefix):]
		next = slices.DeleteFunc(next, func(n notice) bool { return n.id == id })
		if item.Removed {
			continue
		}
		// What only a newer server understands is sent by that server.
		if read, err := parseNotice(item); err == nil {
			next = append(next, notice{id, read.Kind, item.Revision})
		}
	}
	slices.SortFunc(next, func(a, b notice) int { return cmp.Compare(a.at, b.at) })
	f.list = next
}

func parseNotice(item store.Item) (n rollout.Notice, err error) {
	if err = json.Unmarshal(item.Value, &n); err != nil {
		err = fmt.Errorf("the store's %s is not one that this version understands: %w", item.Key, err)
	}
	return n, err
}

func parseHook(item store.Item) (*rollout.Notify, error) {
	list, err := rollout.Parse(item.Value)
	if err != nil {
		return nil, err
	}
	h, is := list[0].(*rollout.Notify)
	if !is || len(list) != 1 || rollout.Key(h) != item.Key {
		return nil, fmt.Errorf("the store's %s is another resource", item.Key)
	}
	h.Metadata.Revision = int64(item.Revision)
	return h, nil
}
