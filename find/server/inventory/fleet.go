// Package inventory keeps what hosts report of themselves: which hosts have joined, by which token, what they
// run and what became of their updates. All of it is in memory, and what must outlast the process is in the
// store before a report is answered. It also counts who asks, which no rollout depends on.
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
	// maxErrorKept is how much of the error of a host is kept, in bytes.
	maxErrorKept = 1000
	// MaxBurst is how many reports of one host are taken in a minute: an update
	// makes three.
	MaxBurst = 30
)

// FleetOptions are the parts of a Fleet.
type FleetOptions struct {
	// Store is where hosts, tokens and last reports are kept; nil: nowhere.
	Store store.Store
	Clock func() time.Time
	// Skew returns what the store's clock is ahead of Clock if they are too far apart, else zero: reports have the times of the
	// store's clock, by which other servers count. Nil: there is one clock.
	Skew func() time.Duration
	// Elapsed returns for how long this process is there, by a clock that nobody sets and that goes on while the machine
	// is suspended; nil: by the system's, which does not.
	Elapsed func() time.Duration
	// Progress is called now and then during a tick: those of a large store may take minutes, and are not loops that hang. Nil: nobody is.
	Progress func()
	// Jitter is what hosts are told where their group has none of its own.
	Jitter time.Duration
	// Named reports whether a group or a version is one that the configuration or the rollout has named:
	// whatever hosts make up, there is room for it. It must not block; nil: none is.
	Named func(word string) bool
	Log   *slog.Logger
}

// Fleet is the hosts that have joined, and their last reports. All of
// it is in memory; what must outlast the process is also in the store, and other
// servers with the same store know it some seconds later. Its methods may be called
// from several goroutines at once.
type Fleet struct {
	opts FleetOptions

	mu    sync.RWMutex
	table *fleet.Table
	// covered is since when every report to any server is known here.
	covered time.Time
	// misheard is until when reports may have the times of a clock that was wrong.
	misheard time.Time
	// synced is when the store was last read.
	synced time.Time
	// kept is when it was last at one with this server, which had written who has reported; of FleetOptions.Elapsed.
	kept   time.Duration
	tokens map[string]token // by name
	// dirty are hosts with changes that are not in the store yet. The number grows
	// with each change.
	dirty   map[rollout.HostID]uint64
	changes uint64
	// newer has what newer servers of the store keep of hosts.
	newer map[rollout.HostID]newerFields
	// trouble is why hosts of the store are not among these, by their keys. Nobody knows what they
	// would say, so that nothing is complete.
	trouble map[string]error
	words   vocabulary
	loading atomic.Bool           // what is in the store is not here yet
	loaded  chan struct{}         // is closed when it is
	failing atomic.Pointer[error] // why reports cannot be kept

	keep keeper
}

// NewFleet returns one without hosts and without a store, of a server that started at
// a moment and tells hosts that jitter where their group has none of its own.
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

// Report takes the report of a host that proves who it is by its secret. When it
// returns nil, what must not be lost is on stable storage. A host that is refused with ErrMute counts for this server, as
// one does whose change cannot be kept, and may be heard by another one.
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

// Take notes the report of a host, which has passed its Check, without asking who
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

// reportTime is when a report comes, by the clock that the servers of a store share.
func (f *Fleet) reportTime() time.Time {
	now := f.opts.Clock()
	if f.opts.Skew != nil {
		now = now.Add(f.opts.Skew())
	}
	return now
}

// SetRight is called when the clock of this server, or that of the store, was wrong and is right again. Hosts that have
// reported meanwhile may seem to have been silent since long ago, or to come: nothing follows from that until all have had
// time to report again.
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

// Len returns how many hosts there are.
func (f *Fleet) Len() int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.table.Len()
}

// Counts returns what hosts report, for a rollout and those of its plans that can be read. They are not complete
// either while the store cannot be read: hosts may report to other servers.
func (f *Fleet) Counts(r *rollout.Rollout, plans map[string]*rollout.Index, now time.Time) (n rollout.Counts) {
	f.Counting(r, plans, now, func(counted rollout.Counts) { n = counted.Detached() })
	return n
}

// Counting calls do with the counts, whose functions hold until do returns: no host is taken up meanwhile.
func (f *Fleet) Counting(r *rollout.Rollout, plans map[string]*rollout.Index, now time.Time, do func(rollout.Counts)) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	alone := f.opts.Store == nil
	inTouch := alone || now.Sub(f.synced) <= rollout.ReportLife && !f.wasMute()
	complete := len(f.trouble) == 0 && !f.loading.Load() && !now.Before(f.completeAt()) && inTouch
	do(rollout.Count(r, f.table.View(), plans, rollout.CountOptions{Complete: complete, Jitter: f.opts.Jitter, Now: now}))
}

// CountsOfShare returns the counts of the hosts that a server reports, one of several; see rollout.Shared.
func (f *Fleet) CountsOfShare(r *rollout.Rollout, server string, servers []string, now time.Time) rollout.Counts {
	f.mu.RLock()
	defer f.mu.RUnlock()
	hosts := rollout.Shared(f.table.View(), server, servers)
	return rollout.Count(r, hosts, nil, rollout.CountOptions{Jitter: f.opts.Jitter, Now: now}).Detached()
}

// Each calls do for every host. Nobody reports meanwhile.
func (f *Fleet) Each(do func(*fleet.Entry)) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	f.table.Each(func(e *fleet.Entry) bool {
		do(e)
		return true
	})
}

// Walk returns a page of hosts in the order of their ids, and whether there are more after it. Nobody reports meanwhile.
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

// Entry returns what is known of a host; false where it is not known.
func (f *Fleet) Entry(id rollout.HostID) (e fleet.Entry, ok bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	ok = f.table.Get(id, &e)
	return e, ok
}

// ErrSecret is the error of a report that does not come from the host that it names.
var ErrSecret = errors.New("no host of this host_id reports with this secret: it has not joined, its secret was revoked, or " +
	"another host has its host_uuid")

// SequenceError is the error of a report that was taken before, or is older than
// the last one.
type SequenceError struct{ Last uint32 }

func (e *SequenceError) Error() string {
	return fmt.Sprintf("the sequence is not above %d, that of the last report: nothing was changed", e.Last)
}

// errBurst is the error of a host that reports all the time.
var errBurst = fmt.Errorf("more than %d reports in a minute: this report was refused", MaxBurst)

// take notes the report of a host that proves who it is, and says whether something
// has to be in the store before anybody hears that the report was taken.
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
		// Nobody knows which of the hosts this is. What the last one said before
		// stays.
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
	// What could not be written before counts too.
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

// oneLine makes one line of what a host has sent, of no more than is kept.
func oneLine(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), maxErrorKept)], "")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s))
}
