// Package inventory keeps the reports of hosts: which hosts have joined, by which token, their versions and
// the results of their updates. All of it is in memory. Data that must outlast the process is in the store
// before a report is answered. The package also counts requests to find, on which no rollout depends.
package inventory

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

const (
	// MaxHosts is how many hosts a server knows at most.
	MaxHosts = 2_000_000
	// maxErrorKept is how many bytes of a host's error are kept.
	maxErrorKept = 1000
	// MaxBurst is how many reports of one host are taken in a minute: an update
	// makes three.
	MaxBurst = 30
)

// FleetOptions are the parts of a Fleet.
type FleetOptions struct {
	// Store keeps hosts, tokens and last reports; nil: they are lost with the process.
	Store store.Store
	Clock func() time.Time
	// Skew returns how far the store's clock is ahead of Clock if they are too far apart, else zero. Reports have times of
	// the store's clock, since other servers count by it. Nil: there is one clock.
	Skew func() time.Duration
	// Elapsed returns the age of this process by a clock that nobody sets and that goes on while the machine is
	// suspended. Nil: by the system's monotonic clock, which stops then.
	Elapsed func() time.Duration
	// Progress is called now and then during a tick: a tick with a large store may take minutes without hanging. May be nil.
	Progress func()
	// Jitter is for hosts whose group sets none.
	Jitter time.Duration
	// Named reports whether the configuration or the rollout has named a group or a version: there is
	// room for it, whatever hosts make up. It must not block, and may be nil.
	Named func(word string) bool
	// Fresh says that nobody had used the store before this server started: there is no host to wait for.
	Fresh bool
	// Overrides returns the orders to single hosts; may be nil.
	Overrides func() rollout.Overrides
	Log       *slog.Logger
}

// Fleet is the hosts that have joined, and their last reports. All of it is in memory;
// data that must outlast the process is also in the store, and other servers with the
// same store have it some seconds later. Its methods are safe for concurrent use.
type Fleet struct {
	opts FleetOptions

	mu    sync.RWMutex
	table *fleet.Table
	// covered is since when this server knows every report to any server.
	covered time.Time
	// misheard is until when reports may have times of a wrong clock.
	misheard time.Time
	// synced is when the store was last read.
	synced time.Time
	// kept is when the store last had this server's reports and this server the store's changes; by
	// FleetOptions.Elapsed.
	kept   time.Duration
	tokens map[string]token // by name
	// dirty are the hosts with changes that are not in the store yet. The number grows
	// with each change.
	dirty   map[rollout.HostID]uint64
	changes uint64
	// newer has the fields of hosts that only newer servers of the store know.
	newer map[rollout.HostID]newerFields
	// trouble says, by their keys, why items of the store could not be read. Nobody knows what
	// such hosts would report, so counts are not complete.
	trouble map[string]error
	words   vocabulary
	loading atomic.Bool           // the store's hosts are not in memory yet
	loaded  chan struct{}         // closed when they are
	failing atomic.Pointer[error] // why reports cannot be kept

	keep keeper
}

// NewFleet returns a Fleet without hosts and without a store, for a server that started
// at a moment. jitter is for hosts whose group sets none.
func NewFleet(started time.Time, jitter time.Duration) *Fleet {
	return newFleet(FleetOptions{Jitter: jitter}, started)
}

func newFleet(opts FleetOptions, started time.Time) *Fleet {
	table := fleet.New(fleet.Limits{Words: MaxWords, Named: opts.Named})
	return &Fleet{
		opts: opts, table: table, words: vocabulary{table: table}, covered: started,
		tokens: make(map[string]token), dirty: make(map[rollout.HostID]uint64), newer: make(map[rollout.HostID]newerFields),
		trouble: make(map[string]error),
	}
}

// Report takes the report of a host that proves its identity by its secret. When it returns nil, everything that must not
// be lost is on stable storage. If it returns ErrMute, or the change cannot be kept, the report still counts at this
// server, and the host may report to another one.
func (f *Fleet) Report(ctx context.Context, secret string, b rollout.Heartbeat) error {
	if err := f.waitLoaded(ctx); err != nil {
		return err
	}
	id, changed, err := f.take(secret, b, f.reportTime())
	switch {
	case err != nil:
		return err
	case changed:
		return f.flush(ctx, id)
	case f.isMute():
		return ErrMute
	}
	return nil
}

// Take takes the report of a host, which has passed its Check, without a proof of who
// sent it.
func (f *Fleet) Take(b rollout.Heartbeat, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var e fleet.Entry
	f.table.Get(rollout.ParseHostID(b.HostID), &e)
	e.Take(b, now)
	f.table.Put(&e)
}

// CompleteAt is when every host has had time to report.
func (f *Fleet) CompleteAt() time.Time {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.completeAt()
}

func (f *Fleet) completeAt() time.Time { return latest(f.covered, f.misheard).Add(rollout.PresentFor) }

// reportTime is the present time by the clock that the servers of a store share.
func (f *Fleet) reportTime() time.Time {
	now := f.opts.Clock()
	if f.opts.Skew != nil {
		now = now.Add(f.opts.Skew())
	}
	return now
}

// SetRight is called when the clock of this server or of the store was wrong and is right again. Hosts that have reported
// meanwhile may seem to have reported long ago, or in the future, so counts are incomplete until all have had time to
// report again.
func (f *Fleet) SetRight() {
	now := f.opts.Clock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.misheard = now
	if f.covered.After(now) {
		f.covered = now
	}
	var ahead []fleet.Entry
	f.table.Each(func(e *fleet.Entry) bool {
		if e.LastSeen.After(now) {
			ahead = append(ahead, *e)
		}
		return true
	})
	for i := range ahead {
		notAfter(&ahead[i], now)
		f.table.Put(&ahead[i])
	}
}

// Len returns the number of hosts.
func (f *Fleet) Len() int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.table.Len()
}

// Counting calls do with the counts of hosts, for a rollout and its readable plans. The counts are incomplete while the store
// cannot be read: hosts may report to other servers. The functions of the counts are valid until do returns: no report is taken meanwhile.
func (f *Fleet) Counting(r *rollout.Rollout, plans map[string]*rollout.Index, now time.Time, do func(rollout.Counts)) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	alone := f.opts.Store == nil
	inTouch := alone || now.Sub(f.synced) <= rollout.ReportLife && !f.wasMute()
	complete := len(f.trouble) == 0 && !f.loading.Load() && !now.Before(f.completeAt()) && inTouch
	do(rollout.Count(r, f.table.View(), plans, f.countOptions(complete, now)))
}

func (f *Fleet) countOptions(complete bool, now time.Time) rollout.CountOptions {
	opts := rollout.CountOptions{Complete: complete, Jitter: f.opts.Jitter, Now: now}
	if f.opts.Overrides != nil {
		opts.Overrides = f.opts.Overrides()
	}
	return opts
}

// CountsOfShare returns the counts of the hosts in the share of one of several servers; see rollout.Shared.
func (f *Fleet) CountsOfShare(r *rollout.Rollout, server string, servers []string, now time.Time) rollout.Counts {
	f.mu.RLock()
	defer f.mu.RUnlock()
	hosts := rollout.Shared(f.table.View(), server, servers)
	return rollout.Count(r, hosts, nil, f.countOptions(false, now)).Detached()
}

// Each calls do for every host. No report is taken meanwhile.
func (f *Fleet) Each(do func(*fleet.Entry)) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	f.table.Each(func(e *fleet.Entry) bool {
		do(e)
		return true
	})
}

// Walk returns a page of hosts in the order of their ids, and whether more follow. No report is taken meanwhile.
func (f *Fleet) Walk(w fleet.Walk) (hosts []fleet.Entry, more bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	ids, more := f.table.Walk(w)
	hosts = make([]fleet.Entry, len(ids))
	for i, id := range ids {
		f.table.Get(id, &hosts[i])
	}
	return hosts, more
}

// Entry returns the entry of a host, and whether there is one.
func (f *Fleet) Entry(id rollout.HostID) (e fleet.Entry, ok bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	ok = f.table.Get(id, &e)
	return e, ok
}

// ErrSecret is the error of a report without the secret of its host.
var ErrSecret = errors.New("no host of this host_id reports with this secret: it has not joined, its secret was revoked, or " +
	"another host has its host_uuid")

// SequenceError is the error of a report that was taken before, or is older than the
// last one.
type SequenceError struct{ Last uint32 }

func (e *SequenceError) Error() string {
	return fmt.Sprintf("the sequence is not above %d, that of the last report: nothing was changed", e.Last)
}

// errBurst is the error of a host with too many reports.
var errBurst = fmt.Errorf("more than %d reports in a minute: this report was refused", MaxBurst)

// take takes the report of a host that proves its identity, and reports whether the
// host has to be written to the store before the report is answered.
func (f *Fleet) take(secret string, b rollout.Heartbeat, now time.Time) (id rollout.HostID, changed bool, err error) {
	id, ok := rollout.ParseUUID(b.HostID)
	digest := digestOf(secret)
	f.mu.Lock()
	defer f.mu.Unlock()
	var e fleet.Entry
	known := ok && f.table.Get(id, &e) && e.Secret != [16]byte{}
	if subtle.ConstantTimeCompare(e.Secret[:], digest[:]) != 1 || !known {
		return id, false, ErrSecret
	}
	t, found := joinedBy(e.Token, f.tokens)
	if !found {
		return id, false, ErrSecret
	}
	if err := t.allows(b.Group); err != nil {
		return id, false, err
	}
	if last := max(e.Sequence, e.Floor); b.Sequence <= int64(last) {
		return id, false, &SequenceError{last}
	}
	if e.LastSeen.Truncate(time.Minute) != now.UTC().Truncate(time.Minute) {
		e.Burst = 0
	}
	if e.Burst++; e.Burst > MaxBurst {
		return id, false, errBurst
	}
	before := e
	e.Sequence = uint32(b.Sequence)
	detectClone(&e, b.BootID, now)
	if e.Cloned {
		// Nobody knows which of the hosts this is. The last report before stays.
		e.LastSeen = now
	} else {
		if b.Outcome != nil {
			b.Outcome.Error = oneLine(b.Outcome.Error)
		}
		f.words.fit(&b, &before, now)
		e.Take(b, now)
	}
	f.table.Put(&e)
	f.table.Hear(id)
	if f.opts.Store != nil && matters(before, e) {
		f.mark(id)
	}
	// Earlier changes that could not be written count, too.
	return id, f.dirty[id] != 0, nil
}

// detectClone marks an entry as cloned if several hosts report with its secret: a boot that
// was followed by another boot comes back only if two hosts report in turns. The mark is
// removed once the boots have not alternated for as long as a host counts as present.
func detectClone(e *fleet.Entry, boot string, now time.Time) {
	if boot == "" {
		return
	}
	h := fnv.New32a()
	h.Write([]byte(boot))
	digest := max(h.Sum32(), 1)
	if digest != e.Boots[0] {
		at := slices.Index(e.Boots[:], digest)
		if at > 0 {
			e.Cloned, e.Alternated = true, now
		} else {
			at = len(e.Boots) - 1
		}
		copy(e.Boots[1:at+1], e.Boots[:at])
		e.Boots[0] = digest
	}
	if e.Cloned && now.Sub(e.Alternated) > rollout.PresentFor {
		e.Cloned = false
	}
}

// oneLine makes one line of a host's text, of at most maxErrorKept bytes.
func oneLine(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), maxErrorKept)], "")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s))
}
