package inventory

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

const (
	agentsPrefix = "agents/" // of all below
	rollPrefix   = "agents/roll/"
	seenPrefix   = "agents/seen/"
	// SyncEvery is the time between two reads of other servers' changes.
	SyncEvery = 5 * time.Second
	// saveEvery is the time between two writes of the list of reporting hosts: other servers have it within a
	// minute.
	saveEvery = time.Minute - SyncEvery
	// seenLife is how long such a list is kept.
	seenLife = time.Hour
	// hostsAtOnce is how many hosts are written together, and changesAtOnce how many
	// changes are read together.
	hostsAtOnce, changesAtOnce = 256, 1000
	// flushTime bounds the write of one host, whose request may have ended. flushAllTime bounds the writes of a tick: no
	// write begins later. The store has to be read in between, and a tick of minutes would look like one that hangs.
	flushTime, flushAllTime = 10 * time.Second, 20 * time.Second
)

// garbagePercent is how much garbage gathers, in percent of live memory. With the runtime's 100, a million hosts take their memory
// twice. They hold no pointers, so a collection costs no more with them.
const garbagePercent = 15

// keeper is the state of a Fleet for its store.
//
// The store has an item for each host. If a report changes more than the time of the last report, the item is
// written before the report is answered, so that no failure is lost with the process. Once a minute, each
// server writes a list of the hosts that have reported, by their numbers in the roll; see fleet.Seen.
type keeper struct {
	joining  sync.Mutex // one join after the other
	joined   joinRate
	flushing sync.Mutex
	syncing  sync.Mutex
	since    store.Revision            // the revision up to which the store was read
	identity store.Identity            // of the store that was read
	name     string                    // of this process, among those that have the store open
	seen     map[string]time.Time      // when other servers last wrote their lists
	held     []seenItem                // lists of other servers that are not taken yet
	saved    map[string]store.Revision // of the last list of this process
	pages    map[uint32]store.Revision // of the pages of the roll
	lastSave time.Time
	missed   bool          // since the last read, the store could not be read, or not in time
	heard    time.Duration // the last read, by FleetOptions.Elapsed
	lastTick time.Time
	// disagreed is when the clock of another running server last differed from this one's.
	disagreed time.Time
	purged    time.Time
	early     time.Duration // by how much reports may have been dated too early; see Fleet.allowForSkew
}

// OpenFleet returns the Fleet in a store, with the last reports from before. If the
// server was down for less than rollout.ReportLife, and knew all hosts before, there is
// no wait for reports. Nor is there one in a store that nobody has used yet.
func OpenFleet(ctx context.Context, opts FleetOptions) (*Fleet, error) {
	f := StartFleet(opts)
	if err := f.load(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

// StartFleet returns a Fleet that Run fills from the store, which takes seconds for a million hosts. Until then it refuses
// reports, and counts are not complete.
func StartFleet(opts FleetOptions) *Fleet {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	now, start := opts.Clock(), time.Now()
	if opts.Elapsed == nil {
		opts.Elapsed = func() time.Duration { return time.Since(start) }
	}
	if opts.Progress == nil {
		opts.Progress = func() {}
	}
	f := newFleet(opts, now)
	f.keep.name, f.keep.seen, f.keep.saved = rand.Text(), make(map[string]time.Time), make(map[string]store.Revision)
	f.keep.pages, f.keep.purged = make(map[uint32]store.Revision), now // other servers have an hour to show their clocks
	f.loading.Store(true)
	f.loaded = make(chan struct{})
	return f
}

func (f *Fleet) takeToken(item store.Item) error {
	var t token
	if err := json.Unmarshal(item.Value, &t); err != nil {
		return fmt.Errorf("the store's %s, revision %d, is no token: %w", item.Key, item.Revision, err)
	}
	t.revision = item.Revision
	f.tokens[strings.TrimPrefix(item.Key, tokenPrefix)] = t
	return nil
}

// Sync reads the changes that other servers, and people there, have made. If another store, or an older copy, took
// the place of the one that was read, Sync reads all of it again.
func (f *Fleet) Sync(ctx context.Context) (err error) {
	f.keep.syncing.Lock()
	defer f.keep.syncing.Unlock()
	defer func() { f.keep.missed = f.keep.missed || err != nil }()
	began := f.opts.Clock()
	identity, err := f.opts.Store.Identity(ctx)
	if err != nil {
		return err
	}
	for {
		items, upTo, err := f.opts.Store.Changes(ctx, agentsPrefix, f.keep.since, changesAtOnce)
		if replaced := identity != f.keep.identity || upTo < f.keep.since; errors.Is(err, store.ErrTooOld) || err == nil && replaced {
			return f.readAgain(ctx, identity, began)
		}
		if err != nil {
			return err
		}
		all := true
		f.mu.Lock()
		for i, item := range items {
			f.setTrouble(item.Key, f.takeItem(item))
			all = all && (i < changesAtOnce-1 || item.Removed)
		}
		if all {
			f.hear(began)
		}
		f.mu.Unlock()
		f.opts.Progress()
		f.keep.since = upTo
		if all {
			return nil
		}
	}
}

// hear notes that everything in the store at the time began is known; began lies before the read, which may miss later writes.
// After an outage of the store, or a pause of this process, that is longer than other servers' lists are valid, hosts may have
// reported to other servers, or to none, without a trace here. So their silence counts from now on only. A clock that was set
// ahead is no pause; but a leap of more than a poll or so may mean that the machine was stopped with all of its clocks, which
// makes every host as silent.
func (f *Fleet) hear(began time.Time) {
	running, away := f.opts.Elapsed(), began.Sub(f.synced)
	deaf := f.keep.missed || running-f.keep.heard > rollout.ReportLife || away > rollout.PresentFor/2
	if deaf && away > rollout.ReportLife && f.covered.Before(began) {
		f.opts.Log.Warn("the store was not read for a while: no group goes on until hosts have had time to report",
			"away", away.Round(time.Second), "time", rollout.PresentFor)
		f.covered = began
	}
	f.keep.missed = f.opts.Clock().Sub(began) > rollout.ReportLife
	f.synced, f.keep.heard = began, running
	f.takeHeld(f.opts.Clock())
}

// setTrouble keeps the error of an item of the store. If err is nil, it removes an earlier one.
func (f *Fleet) setTrouble(key string, err error) {
	if err == nil {
		delete(f.trouble, key)
		return
	}
	if len(f.trouble) == 0 {
		f.opts.Log.Error("what is in the store cannot be counted, and no group goes on", "error", err)
	}
	f.trouble[key] = err
}

func (f *Fleet) takeItem(item store.Item) error {
	switch {
	case strings.HasPrefix(item.Key, tokenPrefix) && item.Removed:
		delete(f.tokens, strings.TrimPrefix(item.Key, tokenPrefix))
		return nil
	case strings.HasPrefix(item.Key, tokenPrefix):
		return f.takeToken(item)
	case strings.HasPrefix(item.Key, rollPrefix):
		return f.takePage(item)
	case strings.HasPrefix(item.Key, seenPrefix):
		return f.hold(item)
	case !strings.HasPrefix(item.Key, hostPrefix):
		return nil
	case item.Removed:
		f.takeRemoval(item)
		return nil
	}
	var ours fleet.Entry
	id, _ := rollout.ParseUUID(strings.TrimPrefix(item.Key, hostPrefix))
	if f.table.Get(id, &ours) && ours.Revision >= int64(item.Revision) {
		return nil // a newer revision was written meanwhile
	}
	return f.adopt(item, item.Revision)
}

// takeRemoval notes that a host is not in the store any longer. If people remove a host, its item first says so. So
// another server has forgotten it: that server has not heard from the host, or its clock is days ahead.
func (f *Fleet) takeRemoval(item store.Item) {
	var ours fleet.Entry
	id, _ := rollout.ParseUUID(strings.TrimPrefix(item.Key, hostPrefix))
	if !f.table.Get(id, &ours) || ours.Revision >= int64(item.Revision) {
		return
	}
	f.lost(&ours)
}

// lost keeps a host that the store lacks if it still reports, and else forgets it.
func (f *Fleet) lost(ours *fleet.Entry) {
	if f.isGone(ours, f.opts.Clock()) {
		f.table.Remove(ours.ID)
		delete(f.dirty, ours.ID)
		return
	}
	ours.Revision = 0
	f.table.Put(ours)
	f.mark(ours.ID)
}

// mark notes that a host has to be written.
func (f *Fleet) mark(id rollout.HostID) {
	f.changes++
	f.dirty[id] = f.changes
}

// Run keeps the store and this server in agreement until ctx ends. At every tick it
// reads the changes of others, once a minute it writes which hosts have reported, and
// once an hour it forgets hosts that are gone. It logs errors when they begin and when
// they are over.
func (f *Fleet) Run(ctx context.Context, ticks <-chan time.Time) {
	failing := false
	var loading sync.WaitGroup
	loading.Go(func() { f.loadPatiently(ctx) })
	defer loading.Wait()
	for {
		select {
		case <-ctx.Done():
			// For the next start of this server, which may be soon.
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
			defer cancel()
			if f.loading.Load() {
				return
			}
			ofHosts, err := f.flushAll(last)
			if err == nil {
				err = f.saveSeen(last, f.opts.Clock())
			}
			if err = errors.Join(ofHosts, err); err != nil {
				f.opts.Log.Error("the last reports of hosts are not in the store, and hosts have to report again", "error", err)
			}
			return
		case <-ticks:
		}
		err := f.Tick(ctx)
		if !f.loading.Load() && ctx.Err() == nil {
			f.setFailing(err)
		}
		switch {
		case ctx.Err() != nil:
		case err != nil && !failing:
			f.opts.Log.Error("reports of hosts cannot be kept in the store, and no group goes on", "error", err)
		case err == nil && failing:
			f.opts.Log.Info("reports of hosts can be kept in the store again")
		}
		failing = err != nil
	}
}

// Tick does everything that is due.
func (f *Fleet) Tick(ctx context.Context) error {
	if f.loading.Load() {
		return nil
	}
	now := f.opts.Clock()
	if now.Sub(f.keep.lastTick) > forgetEvery {
		f.keep.purged = now // this process was paused, or its clock was set: others may know better
	}
	if now.Before(f.keep.lastTick.Add(-clockDiffers)) {
		f.setBack(now)
	}
	f.keep.lastTick = now
	f.allowForSkew()
	var ofHosts error
	err := f.Sync(ctx)
	if err == nil {
		ofHosts, err = f.flushAll(ctx)
	}
	if err == nil && f.isDueToSave(now) {
		if err = f.saveSeen(ctx, now); err == nil {
			f.keep.lastSave = now
		}
	}
	if err == nil {
		f.speak(now)
	}
	if err == nil && f.isDueToForget(now) {
		err = f.forget(ctx, now)
	}
	return errors.Join(ofHosts, err)
}

// isDueToSave reports whether it is time to write which hosts have reported. If the last save lies in the future, the clock
// was set back, and waiting would make this server's hosts silent to other servers for that long.
func (f *Fleet) isDueToSave(now time.Time) bool {
	return now.Sub(f.keep.lastSave) >= saveEvery || now.Before(f.keep.lastSave)
}
