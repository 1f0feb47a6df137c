package inventory

import (
	"context"
	"errors"
	"slices"
	"time"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

const (
	// HostLife is how long a host without reports is kept.
	HostLife = 14 * 24 * time.Hour
	// forgetEvery is the time between two removals of such hosts.
	forgetEvery = time.Hour
)

// isGone reports whether the last report of a host is older than HostLife. The caller holds f.mu.
func (f *Fleet) isGone(e *fleet.Entry, now time.Time) bool {
	return now.Sub(latest(e.LastSeen, e.FirstSeen)) > HostLife+f.keep.early
}

// allowForSkew lengthens the life of hosts by the time by which the store's clock is behind this server's. Reports then have the
// store's time, and all hosts seem to have been silent for that long. The longer life holds until this process ends: once the clocks
// agree, hosts that went away meanwhile still seem so.
func (f *Fleet) allowForSkew() {
	if f.opts.Skew == nil {
		return
	}
	ahead := f.opts.Skew()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keep.early = max(f.keep.early, -ahead)
}

// isDueToForget reports whether an hour has passed since hosts were forgotten, and the clocks of all servers have agreed for a day.
func (f *Fleet) isDueToForget(now time.Time) bool {
	return now.Sub(f.keep.purged) >= forgetEvery && now.Sub(f.keep.disagreed) > 24*forgetEvery
}

// forget removes hosts whose last report is older than HostLife by this server's clock and by the store's. It begins no write
// after flushAllTime; the next tick goes on.
func (f *Fleet) forget(ctx context.Context, now time.Time) error {
	at, err := f.opts.Store.Now(ctx)
	if err != nil {
		return err
	}
	if at.Before(now) {
		now = at
	}
	var gone []rollout.HostID
	f.Each(func(e *fleet.Entry) {
		if f.isGone(e, now) {
			gone = append(gone, e.ID)
		}
	})
	forgotten, began := 0, f.opts.Elapsed()
	for err == nil && len(gone) > 0 && f.opts.Elapsed()-began < flushAllTime {
		some := gone[:min(len(gone), hostsAtOnce)]
		gone = gone[len(some):]
		n := 0
		n, err = f.forgetSome(ctx, some, now)
		forgotten += n
	}
	if forgotten > 0 {
		f.opts.Log.Info("forgot hosts that have not reported", "hosts", forgotten, "for", HostLife)
	}
	if err == nil && len(gone) == 0 {
		f.keep.purged = f.keep.lastTick
	}
	return err
}

// forgetSome removes hosts that are still gone, and returns how many. It leaves out a host if the store has another record of it, or
// none: the next Sync settles that.
func (f *Fleet) forgetSome(ctx context.Context, ids []rollout.HostID, now time.Time) (forgotten int, err error) {
	var change store.Change
	f.mu.RLock()
	change.Of = f.keep.identity
	var e fleet.Entry
	for _, id := range ids {
		if f.table.Get(id, &e) && e.Revision != 0 {
			change.Writes = append(change.Writes, store.Write{Key: HostKey(id), Based: store.Revision(e.Revision), Do: store.Remove})
		}
	}
	f.mu.RUnlock()
	changed := make(map[string]bool)
	for len(change.Writes) > 0 {
		_, err := f.opts.Store.Commit(ctx, change)
		if err == nil {
			break
		}
		conflict, is := errors.AsType[*store.ConflictError](err)
		if !is || changed[conflict.Key] {
			return 0, err
		}
		changed[conflict.Key] = true
		change.Writes = slices.DeleteFunc(change.Writes, func(w store.Write) bool { return w.Key == conflict.Key })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		if !changed[HostKey(id)] && f.table.Get(id, &e) && f.isGone(&e, now) {
			f.table.Remove(id)
			delete(f.dirty, id)
			forgotten++
		}
	}
	return forgotten, nil
}
