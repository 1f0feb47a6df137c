package inventory

import (
	"context"
	"errors"
	"strings"
	"time"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// readAgain reads the whole store after another store, or a copy, took the place of the one before. A copy is older than
// this server's data, so later reports are written again. From another store, everything is taken as it is. began is the
// time before the store was read.
func (f *Fleet) readAgain(ctx context.Context, identity store.Identity, began time.Time) error {
	_, head, err := f.opts.Store.List(ctx, tokenPrefix)
	if err != nil {
		return err
	}
	there, tokens := make(map[rollout.HostID]bool), make(map[string]bool)
	trouble := make(map[string]error)
	f.mu.Lock()
	f.table.Unroll()
	clear(f.keep.pages)
	clear(f.keep.saved)
	f.keep.held = nil
	f.mu.Unlock()
	read := 0
	at, err := f.opts.Store.Scan(ctx, agentsPrefix, func(item store.Item) bool {
		if read++; read%changesAtOnce == 0 {
			f.opts.Progress()
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		err := error(nil)
		if name, isToken := strings.CutPrefix(item.Key, tokenPrefix); isToken {
			tokens[name], err = true, f.takeToken(item)
		} else if id, ok := rollout.ParseUUID(strings.TrimPrefix(item.Key, hostPrefix)); ok {
			there[id], err = true, f.adopt(item, head)
		} else {
			err = f.takeItem(item)
		}
		if err != nil {
			trouble[item.Key] = err
		}
		return true
	})
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.tokens {
		if !tokens[name] {
			delete(f.tokens, name)
		}
	}
	another := identity.ID != f.keep.identity.ID
	var missing []fleet.Entry
	f.table.Each(func(e *fleet.Entry) bool {
		if !there[e.ID] {
			missing = append(missing, *e)
		}
		return true
	})
	for i := range missing {
		if another {
			f.table.Remove(missing[i].ID)
			delete(f.dirty, missing[i].ID)
			continue
		}
		f.lost(&missing[i])
	}
	f.trouble = trouble
	f.opts.Log.Warn("the store is not the one that was read before, and all of it was read again",
		"another", another, "hosts", f.table.Len(), "not_in_it", len(missing), "revision", at, "before", f.keep.since)
	f.keep.since, f.keep.identity = at, identity
	f.hear(began)
	return nil
}

// adopt takes a host as the store has it, whatever revision of it was known. head is the revision of the store: an
// entry with a later revision is newer, and not in the store.
func (f *Fleet) adopt(item store.Item, head store.Revision) error {
	theirs, newer, removed, err := decodeHost(item)
	if err != nil {
		return err
	}
	if delete(f.newer, theirs.ID); newer != nil {
		f.newer[theirs.ID] = newer
	}
	notAfter(&theirs, f.opts.Clock())
	if removed {
		f.table.Remove(theirs.ID)
		delete(f.dirty, theirs.ID)
		return nil
	}
	var ours fleet.Entry
	if !f.table.Get(theirs.ID, &ours) {
		f.table.Put(&theirs)
		return nil
	}
	merged := ours
	if newer := store.Revision(ours.Revision) > head; newer {
		merged.Revision = theirs.Revision
	} else {
		merged = merge(ours, theirs, f.dirty[theirs.ID] != 0 || ours.Sequence > theirs.Sequence)
	}
	f.table.Put(&merged)
	delete(f.dirty, theirs.ID)
	if matters(theirs, merged) {
		f.mark(theirs.ID) // the store lacks changes that are known here
	}
	return nil
}

// notAfter sets times in the future to now: the clock of their writer is wrong, or this one. Otherwise a host with a
// time in a week would have that long to update.
func notAfter(e *fleet.Entry, now time.Time) {
	for _, at := range []*time.Time{&e.FirstSeen, &e.LastSeen, &e.Told.At, &e.Begun.At, &e.Failed.At, &e.Alternated} {
		if at.After(now) {
			*at = now.Truncate(time.Second)
		}
	}
}

// settle merges this server's and the store's records of a host after a conflict, so that the next write of the
// host is based on the present item, and no other host has to wait for it. It does nothing for any other key.
func (f *Fleet) settle(ctx context.Context, conflict *store.ConflictError) error {
	id, isHost := rollout.ParseUUID(strings.TrimPrefix(conflict.Key, hostPrefix))
	if !isHost {
		return nil
	}
	item, err := f.opts.Store.Get(ctx, conflict.Key)
	f.mu.Lock()
	defer f.mu.Unlock()
	if errors.Is(err, store.ErrNotFound) {
		var ours fleet.Entry
		if f.table.Get(id, &ours) {
			f.lost(&ours)
		}
		return nil
	}
	if err != nil {
		return err
	}
	return f.adopt(item, item.Revision)
}
