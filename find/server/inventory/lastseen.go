package inventory

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// seenHead says what a server has written of who was last seen when.
type seenHead struct {
	At   time.Time `json:"at"`
	From time.Time `json:"from"` // since when it knows all reports
}

const (
	seenEntry   = 16 + 4 + 4 // id, time, sequence
	seenPerPage = 40_000     // below store.MaxValue
)

// saveSeen writes who was last seen when, a page after the other. Nobody forgets hosts
// meanwhile: that is done where this is.
func (f *Fleet) saveSeen(ctx context.Context, now time.Time) error {
	f.mu.RLock()
	hosts := f.table.Len()
	head, err := json.Marshal(seenHead{At: now, From: f.covered})
	f.mu.RUnlock()
	if hosts == 0 || err != nil {
		return err
	}
	own := seenPrefix + f.keep.name
	for i, at := 0, 0; at < hosts; i++ {
		page := make([]byte, 0, min(hosts-at, seenPerPage)*seenEntry)
		f.mu.RLock()
		at = f.table.Seen(at, func(id *rollout.HostID, last time.Time, sequence uint32) bool {
			if now.Sub(last) <= rollout.PresentFor {
				page = append(page, id[:]...)
				page = binary.BigEndian.AppendUint32(page, uint32(last.Unix()))
				page = binary.BigEndian.AppendUint32(page, sequence)
			}
			return len(page) < cap(page)
		})
		f.mu.RUnlock()
		if len(page) == 0 {
			break
		}
		if err := f.saveItem(ctx, fmt.Sprintf("%s/%04d", own, i), page, now); err != nil {
			return err
		}
	}
	// The head comes last: it says that all the pages are there.
	return f.saveItem(ctx, own, head, now)
}

func (f *Fleet) saveItem(ctx context.Context, key string, value []byte, now time.Time) error {
	revisions, err := f.opts.Store.Commit(ctx, store.Change{Writes: []store.Write{{Key: key, Value: value, Based: f.keep.saved[key], Expires: now.Add(seenLife)}}})
	if conflict, ok := errors.AsType[*store.ConflictError](err); ok {
		f.keep.saved[key] = conflict.Found // it has expired, or the store was put back
		return f.saveItem(ctx, key, value, now)
	}
	if err == nil {
		f.keep.saved[key] = revisions[0]
	}
	return err
}

// readSeen takes up what other servers, or this one before it started again, have
// written of who was last seen when. It returns when the newest of that was written.
func (f *Fleet) readSeen(ctx context.Context, now time.Time) (newest time.Time, err error) {
	var head seenHead
	var skip string
	heads := make(map[string]time.Time)
	_, err = f.opts.Store.Scan(ctx, seenPrefix, func(item store.Item) bool {
		name, _, page := strings.Cut(strings.TrimPrefix(item.Key, seenPrefix), "/")
		if !page {
			skip = ""
			if json.Unmarshal(item.Value, &head) != nil || name == f.keep.name {
				skip = name
				return true
			}
			heads[name] = head.At
			f.compareClocks(name, head.At, now)
			if f.keep.seen[name].Equal(head.At) {
				skip = name
				return true
			}
			newest = latest(newest, head.At)
			if away := now.Sub(head.At); away <= rollout.ReportLife {
				f.mu.Lock()
				if head.From.Before(f.covered) {
					f.covered = head.From
				}
				f.mu.Unlock()
			}
			return true
		}
		if name != skip {
			f.takeSeen(item.Value)
		}
		return true
	})
	if err == nil {
		f.keep.seen = heads
	}
	return newest, err
}

// clockDiffers is from which difference on the clocks of two servers do not agree.
const clockDiffers = 10 * time.Minute

// compareClocks notes that another server, which has written since the look before, has another time than this one.
func (f *Fleet) compareClocks(name string, theirs, now time.Time) {
	before, known := f.keep.seen[name]
	alive := known && !before.Equal(theirs)
	if difference := now.Sub(theirs).Abs(); !alive || difference <= clockDiffers {
		return
	}
	if now.Sub(f.keep.disagreed) > HostLife {
		f.opts.Log.Error("the clock of another server of the store is not that of this one: no host is forgotten until they agree", "other", theirs, "own", now)
	}
	f.keep.disagreed = now
}

func (f *Fleet) takeSeen(page []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var e fleet.Entry
	for ; len(page) >= seenEntry; page = page[seenEntry:] {
		if !f.table.Get(rollout.HostID(page[:16]), &e) {
			continue
		}
		at := time.Unix(int64(binary.BigEndian.Uint32(page[16:])), 0).UTC()
		if at.After(e.LastSeen) {
			e.LastSeen = at
		}
		e.Sequence = max(e.Sequence, binary.BigEndian.Uint32(page[20:]))
		f.table.Put(&e)
	}
}

// postpone has hosts that were present at a moment be so for longer.
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
