package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// seenItem lists hosts that have reported to another server, as read from the store.
type seenItem struct {
	server string
	fleet.Seen
}

// saveSeen writes which hosts have reported to this server since the last save. Each save is an item of its own,
// which is written once and expires: for a million hosts it is some 60 KB.
func (f *Fleet) saveSeen(ctx context.Context, now time.Time) error {
	if f.Len() == 0 {
		return nil
	}
	if err := f.enrol(ctx); err != nil {
		return err
	}
	from := f.keep.lastSave
	if from.IsZero() || from.After(now) {
		from = now.Add(-saveEvery)
	}
	var change store.Change
	add := func(seen *fleet.Seen) {
		key := fmt.Sprintf("%s%s/%d-%d", seenPrefix, f.keep.name, now.Unix(), len(change.Writes))
		change.Writes = append(change.Writes, store.Write{Key: key, Value: seen.Bytes(), Based: f.keep.saved[key], Expires: now.Add(seenLife)})
	}
	f.mu.RLock()
	change.Of = f.keep.identity
	seen := fleet.Seen{From: from, To: now, Covered: f.covered}
	f.table.Heard(func(_ *rollout.HostID, number uint32, enrolled bool, sequence uint32) bool {
		if enrolled {
			seen.Add(number, sequence)
		}
		if seen.Full() {
			add(&seen)
			seen.Numbers, seen.Unusual = nil, nil
		}
		return true
	})
	f.mu.RUnlock()
	add(&seen)
	revisions, err := f.opts.Store.Commit(ctx, change)
	if conflict, ok := errors.AsType[*store.ConflictError](err); ok { // twice in a second, or the store was put back
		f.keep.saved[conflict.Key] = conflict.Found
	}
	if err != nil {
		return err
	}
	clear(f.keep.saved)
	for i, w := range change.Writes {
		f.keep.saved[w.Key] = revisions[i]
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.table.Quiet(now)
	return nil
}

// hold keeps such a list until all pages of the roll that it refers to have been read.
func (f *Fleet) hold(item store.Item) error {
	server, _, _ := strings.Cut(strings.TrimPrefix(item.Key, seenPrefix), "/")
	if server == f.keep.name || item.Removed {
		return nil
	}
	seen, err := fleet.ParseSeen(item.Value)
	if err != nil {
		return fmt.Errorf("the store's %s, revision %d: %w", item.Key, item.Revision, err)
	}
	f.keep.held = append(f.keep.held, seenItem{server, seen})
	return nil
}

// takeHeld takes the held lists, the oldest first, and returns when the newest one was written. If a server's newest list is
// old, it has another clock or its write was held up. In both cases its time of full knowledge does not count.
func (f *Fleet) takeHeld(now time.Time) (newest time.Time) {
	held := f.keep.held
	f.keep.held = nil
	slices.SortStableFunc(held, func(a, b seenItem) int { return a.To.Compare(b.To) })
	last, differ := make(map[string]time.Time), make(map[string]bool)
	for _, s := range held {
		last[s.server] = s.To
	}
	for server, at := range last {
		differ[server] = f.compareClocks(server, at, now)
	}
	for i := range held {
		s := &held[i]
		at := s.To
		if differ[s.server] || at.After(now) {
			at = now // by this server's clock
		}
		newest = latest(newest, at)
		if !differ[s.server] && now.Sub(at) <= rollout.ReportLife && s.Covered.Before(f.covered) {
			f.covered = s.Covered
		}
		f.takeSeen(&s.Seen, at)
	}
	return newest
}

func (f *Fleet) takeSeen(s *fleet.Seen, at time.Time) {
	var e fleet.Entry
	for _, number := range s.Numbers {
		if !f.table.At(number, &e) {
			continue
		}
		// The floor refuses replays. The host's report is not known here, so it does not count as a newer one.
		e.Floor, e.LastSeen = max(e.Floor, s.Sequence(number)), latest(e.LastSeen, at)
		f.table.Put(&e)
	}
}

// compareClocks reports whether another server, which has just written, has another time than this one.
func (f *Fleet) compareClocks(name string, theirs, now time.Time) (differ bool) {
	before, known := f.keep.seen[name]
	f.keep.seen[name] = theirs
	alive := known && !before.Equal(theirs)
	if difference := now.Sub(theirs).Abs(); !alive || difference <= clockDiffers {
		return false
	}
	if now.Sub(f.keep.disagreed) > HostLife {
		f.opts.Log.Error("the clock of another server of the store is not that of this one: no host is forgotten until they agree", "other",
			theirs, "own", now)
	}
	f.keep.disagreed = now
	return true
}

// setBack sets times in the future to now after a clock was set back: otherwise a host first seen in a fortnight would be
// in no count until then, and one that went away would be in all.
func (f *Fleet) setBack(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ahead []fleet.Entry
	f.table.Each(func(e *fleet.Entry) bool {
		was := *e
		if notAfter(e, now); *e != was {
			ahead = append(ahead, *e)
		}
		return true
	})
	for i := range ahead {
		f.table.Put(&ahead[i])
	}
	if len(ahead) > 0 {
		f.opts.Log.Warn("the clock of this server was set back: what hosts said in times that lie ahead counts as said now", "now", now, "hosts",
			len(ahead))
	}
}

// postpone moves the last report of hosts that were present at a moment, so that they stay present for longer.
func (f *Fleet) postpone(away time.Duration, present time.Time) {
	var late []rollout.HostID
	f.table.Each(func(e *fleet.Entry) bool {
		if present.Sub(e.LastSeen) <= rollout.PresentFor {
			late = append(late, e.ID)
		}
		return true
	})
	var e fleet.Entry
	for _, id := range late {
		f.table.Get(id, &e)
		e.LastSeen = e.LastSeen.Add(away)
		f.table.Put(&e)
	}
}
