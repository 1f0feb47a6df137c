package inventory

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

// flush returns once the change of a host is in the store. The first of several callers also writes the hosts of the
// others. If the store has another record of a host, or none, that host leaves the batch until this is settled: it is no
// reason to refuse the reports of others.
func (f *Fleet) flush(ctx context.Context, id rollout.HostID) error {
	if !f.isDirty(id) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	f.keep.flushing.Lock()
	defer f.keep.flushing.Unlock()
	left := make(map[rollout.HostID]error)
	for attempt := 1; f.isDirty(id); {
		err := f.flushSome(ctx, id, left)
		if errors.Is(err, store.ErrReplaced) && attempt <= parts.Attempts {
			attempt++
			if err = f.Sync(ctx); err != nil {
				return err
			}
			continue
		}
		conflict, isConflict := errors.AsType[*store.ConflictError](err)
		if !isConflict {
			if err != nil {
				return err
			}
			continue
		}
		if attempt++; attempt > hostsAtOnce+parts.Attempts {
			return err
		}
		if err := f.settle(ctx, conflict); err != nil {
			other, _ := rollout.ParseUUID(strings.TrimPrefix(conflict.Key, hostPrefix))
			if other == id || left[other] != nil {
				return err
			}
			left[other] = err
		}
	}
	return nil
}

func (f *Fleet) isDirty(id rollout.HostID) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.dirty[id] != 0
}

// flushAll writes the changes that could not be written before. It begins no write after flushAllTime; the next tick goes on. A host
// whose record cannot be written does not stop the others, and ofHosts is the first such error. Any other error comes from the store
// and ends flushAll.
func (f *Fleet) flushAll(ctx context.Context) (ofHosts, err error) {
	f.mu.RLock()
	waiting := slices.Collect(maps.Keys(f.dirty))
	f.mu.RUnlock()
	began := f.opts.Elapsed()
	for _, id := range waiting {
		if ctx.Err() != nil || f.opts.Elapsed()-began >= flushAllTime {
			break
		}
		err := f.flush(ctx, id)
		if err != nil && !isOfHost(err) {
			return ofHosts, err
		}
		if ofHosts == nil {
			ofHosts = err
		}
	}
	return ofHosts, nil
}

// isOfHost reports whether a write failed because of one host's record, and not because of the store.
func isOfHost(err error) bool {
	_, unreadable := errors.AsType[*recordError](err)
	_, conflict := errors.AsType[*store.ConflictError](err)
	return unreadable || conflict
}

// flushSome writes a host, and other hosts with changes, but not those in left.
func (f *Fleet) flushSome(ctx context.Context, first rollout.HostID, left map[rollout.HostID]error) error {
	var change store.Change
	var ids []rollout.HostID
	var numbers []uint64
	f.mu.RLock()
	change.Of = f.keep.identity // in a copy of the store, a revision may belong to another change
	add := func(id rollout.HostID) {
		var e fleet.Entry
		if f.table.Get(id, &e) {
			change.Writes = append(change.Writes, store.Write{Key: HostKey(id), Value: encodeHost(&e, f.newer[id]),
				Based: store.Revision(e.Revision)})
			ids, numbers = append(ids, id), append(numbers, f.dirty[id])
		}
	}
	add(first)
	for id := range f.dirty {
		if len(ids) == hostsAtOnce {
			break
		}
		if id != first && left[id] == nil {
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
			e.Revision = max(e.Revision, int64(revisions[i])) // a later revision from another server may be here already
			f.table.Put(&e)
		}
		if f.dirty[id] == numbers[i] {
			delete(f.dirty, id)
		}
	}
	return nil
}
