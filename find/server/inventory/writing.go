package inventory

import (
	"context"
	"errors"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

// flush returns once the change of a host is in the store. Whoever comes first writes
// those of all who wait.
func (f *Fleet) flush(ctx context.Context, id rollout.HostID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	f.keep.flushing.Lock()
	defer f.keep.flushing.Unlock()
	for attempt := 1; f.isDirty(id); {
		err := f.flushSome(ctx, id)
		if _, conflict := errors.AsType[*store.ConflictError](err); conflict && attempt < parts.Attempts {
			attempt++
			err = f.Sync(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *Fleet) isDirty(id rollout.HostID) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.dirty[id] != 0
}

// flushAll writes what could not be written when it was reported.
func (f *Fleet) flushAll(ctx context.Context) error {
	for {
		var one rollout.HostID
		f.mu.RLock()
		for one = range f.dirty {
			break
		}
		f.mu.RUnlock()
		if one == (rollout.HostID{}) {
			return nil
		}
		if err := f.flush(ctx, one); err != nil {
			return err
		}
	}
}

// flushSome writes a host, and others that have changed.
func (f *Fleet) flushSome(ctx context.Context, first rollout.HostID) error {
	var change store.Change
	var ids []rollout.HostID
	var numbers []uint64
	f.mu.RLock()
	add := func(id rollout.HostID) {
		var e fleet.Entry
		if f.table.Get(id, &e) {
			change.Writes = append(change.Writes, store.Write{Key: hostKey(id), Value: encodeHost(&e), Based: store.Revision(e.Revision)})
			ids, numbers = append(ids, id), append(numbers, f.dirty[id])
		}
	}
	add(first)
	for id := range f.dirty {
		if len(ids) == hostsAtOnce {
			break
		}
		if id != first {
			add(id)
		}
	}
	f.mu.RUnlock()
	revisions, err := f.opts.Store.Commit(ctx, change)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var e fleet.Entry
	for i, id := range ids {
		if f.table.Get(id, &e) {
			e.Revision = max(e.Revision, int64(revisions[i])) // another server's may have been taken up already
			f.table.Put(&e)
		}
		if f.dirty[id] == numbers[i] {
			delete(f.dirty, id)
		}
	}
	return nil
}
