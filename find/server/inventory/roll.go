package inventory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

// pagesAtOnce is how many pages of the roll are written together: a megabyte.
const pagesAtOnce = 64

func rollKey(page uint32) string { return fmt.Sprintf("%s%06d", rollPrefix, page) }

// takePage takes up a page of the roll: the UUIDs of hosts in the order of their numbers, 16 bytes each.
func (f *Fleet) takePage(item store.Item) error {
	page, err := strconv.ParseUint(strings.TrimPrefix(item.Key, rollPrefix), 10, 22)
	if err == nil && (len(item.Value)%len(rollout.HostID{}) != 0 || len(item.Value) > fleet.RollPage*len(rollout.HostID{})) {
		err = errors.New("it is not a page of the roll")
	}
	if err != nil {
		return fmt.Errorf("the store's %s, revision %d: %w", item.Key, item.Revision, err)
	}
	if item.Removed {
		return nil // nobody removes pages; a missing one is written again when it is needed
	}
	if f.keep.pages[uint32(page)] >= item.Revision {
		return nil
	}
	f.keep.pages[uint32(page)] = item.Revision
	number := uint32(page) * fleet.RollPage
	for value := item.Value; len(value) > 0; value = value[len(rollout.HostID{}):] {
		f.table.Enrol(number, rollout.HostID(value[:len(rollout.HostID{})]))
		number++
	}
	return nil
}

// enrol gives a number in the store's roll to each host that has reported to this server and has none.
func (f *Fleet) enrol(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		done, err := f.enrolSome(ctx)
		conflict, is := errors.AsType[*store.ConflictError](err)
		if done || err != nil && !is {
			return err
		}
		if is && attempt == pagesAtOnce+parts.Attempts {
			return err
		}
		if !is {
			continue
		}
		// Another server has given out numbers of the page, or an older store was put back.
		item, err := f.opts.Store.Get(ctx, conflict.Key)
		f.mu.Lock()
		switch {
		case errors.Is(err, store.ErrNotFound):
			page, _ := strconv.ParseUint(strings.TrimPrefix(conflict.Key, rollPrefix), 10, 22)
			delete(f.keep.pages, uint32(page))
			err = nil
		case err == nil:
			err = f.takePage(item)
		}
		f.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// enrolSome enrols as many hosts as fit into a write, and reports whether none is left.
func (f *Fleet) enrolSome(ctx context.Context) (done bool, err error) {
	given := make(map[uint32]rollout.HostID)
	pages := make(map[uint32][]byte)
	done = true
	f.mu.RLock()
	free, next := f.freeNumbers()
	f.table.Heard(func(id *rollout.HostID, _ uint32, enrolled bool, _ uint32) bool {
		if enrolled {
			return true
		}
		number := next
		if len(free) > 0 {
			number, free = free[0], free[1:]
		}
		if page := number / fleet.RollPage; pages[page] == nil {
			if done = len(pages) < pagesAtOnce; !done {
				return false
			}
			pages[page] = []byte{}
		}
		if number == next {
			next++
		}
		given[number] = *id
		return true
	})
	change := store.Change{Of: f.keep.identity}
	for page := range pages {
		value := f.pageWith(page, given)
		change.Writes = append(change.Writes, store.Write{Key: rollKey(page), Value: value, Based: f.keep.pages[page]})
	}
	f.mu.RUnlock()
	if len(given) == 0 {
		return true, nil
	}
	revisions, err := f.opts.Store.Commit(ctx, change)
	if err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for number := range given {
		f.table.Enrol(number, given[number])
	}
	for i, w := range change.Writes {
		page, _ := strconv.ParseUint(strings.TrimPrefix(w.Key, rollPrefix), 10, 22)
		f.keep.pages[uint32(page)] = revisions[i]
	}
	return done, nil
}

// freeNumbers returns numbers of hosts that are gone, if there are many, and the number after the last one.
func (f *Fleet) freeNumbers() (free []uint32, next uint32) {
	next, vacant := f.table.Enrolled()
	if vacant > fleet.RollPage && vacant > int(next)/4 {
		free = f.table.Vacant(fleet.RollPage)
	}
	return free, next
}

// pageWith returns a page of the roll with the given numbers added.
func (f *Fleet) pageWith(page uint32, given map[uint32]rollout.HostID) (value []byte) {
	hosts := f.table.Page(page)
	for i := range uint32(fleet.RollPage) {
		id, is := given[page*fleet.RollPage+i]
		switch {
		case is:
		case i < uint32(len(hosts)):
			id = hosts[i]
		default:
			return value
		}
		value = append(value, id[:]...)
	}
	return value
}
