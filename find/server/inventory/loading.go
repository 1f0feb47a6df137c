package inventory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// ErrLoading is the error of reports while the server loads the store's hosts after a start.
var ErrLoading = errors.New("the server has just started and is loading the hosts that it knows, and takes no report yet: " +
	"report again later")

// loadParts is the number of parts in which hosts are loaded, so that others can use the store meanwhile.
const loadParts = 256

// loadPatiently loads the hosts. If the store cannot be read, it tries again until ctx ends.
func (f *Fleet) loadPatiently(ctx context.Context) {
	for failing := false; f.loading.Load() && ctx.Err() == nil; failing = true {
		err := f.load(ctx)
		if err == nil {
			return
		}
		f.setFailing(err)
		if !failing && ctx.Err() == nil {
			f.opts.Log.Error("the hosts of the store cannot be loaded: no report is taken, and no group goes on", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(SyncEvery):
		}
	}
}

// load reads the whole store, part by part. Changes during that are read later, with the changes after the
// revision of the first part.
func (f *Fleet) load(ctx context.Context) error {
	f.keep.syncing.Lock()
	defer f.keep.syncing.Unlock()
	began, at := time.Now(), f.opts.Clock()
	identity, err := f.opts.Store.Identity(ctx)
	if err != nil {
		return err
	}
	// An empty store has the revision None: the first part returns it all the same.
	since, first := store.None, true
	scan := func(prefix string) error {
		revision, err := f.opts.Store.Scan(ctx, prefix, func(item store.Item) bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.setTrouble(item.Key, f.takeItem(item))
			return true
		})
		if first {
			since, first = revision, false
		}
		return err
	}
	prefixes := []string{tokenPrefix}
	for i := range loadParts {
		prefixes = append(prefixes, fmt.Sprintf("%s%02x", hostPrefix, i))
	}
	for _, prefix := range append(prefixes, rollPrefix, seenPrefix) {
		if err := scan(prefix); err != nil {
			return err
		}
	}
	history, err := f.opts.Store.History(ctx, 1)
	if err != nil {
		return err
	}
	now := f.opts.Clock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if (f.opts.Fresh || len(history) == 0) && f.table.Len() == 0 {
		f.covered = at.Add(-rollout.PresentFor) // nobody has used the store: there is no host to wait for
	}
	f.keep.since, f.keep.identity, f.synced = since, identity, at
	f.keep.heard, f.keep.missed = f.opts.Elapsed(), now.Sub(at) > rollout.ReportLife
	f.kept = f.keep.heard
	newest := f.takeHeld(now)
	if away := now.Sub(newest); away > 0 && away <= rollout.ReportLife {
		// While no server ran, no host could report.
		f.postpone(away, newest)
	}
	f.loading.Store(false)
	close(f.loaded)
	f.setFailing(nil)
	f.opts.Log.Info("loaded the hosts of the store", "hosts", f.table.Len(), "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// Loading reports whether the store's hosts are still being loaded: until then, hosts are missing.
func (f *Fleet) Loading() bool { return f.loading.Load() }

// peopleWait is how long a command waits for the hosts.
const peopleWait = 10 * time.Second

// AwaitLoaded waits some seconds for the store's hosts, and reports whether they are loaded.
func (f *Fleet) AwaitLoaded(ctx context.Context) bool {
	if !f.loading.Load() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, peopleWait)
	defer cancel()
	select {
	case <-f.loaded:
	case <-ctx.Done():
	}
	return !f.loading.Load()
}

// loadWait is how long a report waits for the hosts: most servers load them in some milliseconds.
const loadWait = time.Second / 2

func (f *Fleet) waitLoaded(ctx context.Context) error {
	if !f.loading.Load() {
		return nil
	}
	select {
	case <-f.loaded:
		return nil
	case <-ctx.Done():
	case <-time.After(loadWait):
	}
	return ErrLoading
}

// Trouble returns why reports are refused or cannot be kept, or nil.
func (f *Fleet) Trouble() error {
	if why := f.failing.Load(); why != nil {
		return *why
	}
	return nil
}

func (f *Fleet) setFailing(err error) {
	if err == nil {
		f.failing.Store(nil)
		return
	}
	f.failing.Store(&err)
}

// ErrMute refuses a report that no other server would learn about.
var ErrMute = errors.New("this server has not been able to use its store for some minutes, so that no other server would hear of the " +
	"report: report again later")

// wasMute reports whether this server has not written its list of reports for longer than such a list is valid, so
// that other servers do not know them. The caller holds f.mu.
func (f *Fleet) wasMute() bool { return f.opts.Elapsed()-f.kept > rollout.ReportLife }

func (f *Fleet) isMute() bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.opts.Store != nil && f.wasMute()
}

// speak notes that the store has this server's reports. After a time without that, other servers may have been mute, too,
// and may know hosts' reports that are not here yet.
func (f *Fleet) speak(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wasMute() && f.covered.Before(now) {
		f.opts.Log.Warn("the store could not be written for a while: no group goes on until hosts have had time to report",
			"time", rollout.PresentFor)
		f.covered = now
	}
	f.kept = f.opts.Elapsed()
}
