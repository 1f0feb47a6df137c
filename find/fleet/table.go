package fleet

import (
	"hash/maphash"
	"time"

	"teleport-update/find/rollout"
)

// chunk is how many records are allocated at once: a list that grows would be there
// twice while it does.
const chunk = 4096

// Table is the hosts. It is not safe for use by several goroutines, but for several
// that only read, each by a View of its own.
type Table struct {
	limits   Limits
	chunks   []*[chunk]record
	count    int
	slots    []uint32 // of records + 1; 0 where it is free
	seed     maphash.Seed
	names    names
	failures map[uint32]failure

	groups, tokens, versions, editions, archs, errors *words
}

// New returns a table without hosts.
func New(limits Limits) *Table {
	t := &Table{limits: limits, seed: maphash.MakeSeed()}
	t.clear()
	return t
}

func (t *Table) clear() {
	t.chunks, t.count, t.slots = nil, 0, make([]uint32, 64)
	t.names, t.failures = names{}, make(map[uint32]failure)
	for _, w := range []**words{&t.groups, &t.tokens, &t.versions, &t.editions, &t.archs, &t.errors} {
		*w = newWords(t.limits.Words)
	}
	t.errors.place(manyErrors)
}

// Len returns how many hosts there are.
func (t *Table) Len() int { return t.count }

func (t *Table) record(at uint32) *record { return &t.chunks[at/chunk][at%chunk] }

// search returns the slot of a host, or the free one where it belongs. The hash has
// a seed of its own: those who choose their UUIDs cannot make all searches long.
func (t *Table) search(id rollout.HostID) (slot int, there bool) {
	mask := len(t.slots) - 1
	for slot = t.first(id); ; slot = (slot + 1) & mask {
		at := t.slots[slot]
		if at == 0 {
			return slot, false
		}
		if t.record(at-1).id == id {
			return slot, true
		}
	}
}

// first is the slot where the search for a host begins.
func (t *Table) first(id rollout.HostID) int {
	return int(maphash.Bytes(t.seed, id[:])) & (len(t.slots) - 1)
}

// Get fills in what is known of a host; false where there is none of that id.
func (t *Table) Get(id rollout.HostID, into *Entry) bool {
	slot, there := t.search(id)
	if !there {
		return false
	}
	t.entry(t.slots[slot]-1, into)
	return true
}

func (t *Table) entry(at uint32, into *Entry) {
	r := t.record(at)
	t.host(at, r, &into.Host)
	into.Secret, into.Token, into.Sequence, into.Boots = r.secret, t.tokens.at(r.token), r.sequence, r.boots
	into.Alternated, into.Burst, into.Revision = moment(r.alternated), r.burst, r.revision
}

func (t *Table) host(at uint32, r *record, into *rollout.Host) {
	*into = rollout.Host{
		ID: r.id, UpdaterID: r.updater, Hostname: t.names.at(r.name), Group: t.groups.at(r.group), Version: rollout.Semver(t.versions.at(r.version)),
		Edition: t.editions.at(r.edition), Arch: t.archs.at(r.arch),
		Pinned: r.flags&pinned != 0, Disabled: r.flags&disabled != 0, Unhealthy: r.flags&unhealthy != 0, Cloned: r.flags&cloned != 0,
		FirstSeen: moment(r.firstSeen), LastSeen: moment(r.lastSeen),
		Told:  rollout.Event{Target: rollout.Semver(t.versions.at(r.told)), At: moment(r.toldAt)},
		Begun: rollout.Event{Target: rollout.Semver(t.versions.at(r.begun)), At: moment(r.begunAt)},
	}
	if r.flags&hasFailed != 0 {
		f := t.failures[at]
		into.Failed = rollout.Failure{
			Event: rollout.Event{Target: rollout.Semver(t.versions.at(f.target)), At: moment(f.at)},
			Error: t.errors.at(f.text), Outcome: time.Unix(0, f.outcome).UTC(),
		}
	}
}

// Put keeps an entry, in the place of the one of the same id. After ErrFull nothing
// has changed.
func (t *Table) Put(e *Entry) error {
	r := record{
		id: e.ID, updater: e.UpdaterID, secret: e.Secret, revision: e.Revision, boots: e.Boots, sequence: e.Sequence,
		firstSeen: seconds(e.FirstSeen), lastSeen: seconds(e.LastSeen), toldAt: seconds(e.Told.At), begunAt: seconds(e.Begun.At), alternated: seconds(e.Alternated),
		flags: flag(e.Pinned, pinned) | flag(e.Disabled, disabled) | flag(e.Unhealthy, unhealthy) | flag(e.Cloned, cloned), burst: e.Burst,
	}
	var f failure
	fits := true
	word := func(w *words, s string) uint16 {
		place, ok := w.place(s)
		fits = fits && ok
		return place
	}
	r.group, r.token = word(t.groups, e.Group), word(t.tokens, e.Token)
	r.version, r.told, r.begun = word(t.versions, string(e.Version)), word(t.versions, string(e.Told.Target)), word(t.versions, string(e.Begun.Target))
	r.edition, r.arch = word(t.editions, e.Edition), word(t.archs, e.Arch)
	if e.Failed.Target != "" {
		r.flags |= hasFailed
		f = failure{outcome: e.Failed.Outcome.UnixNano(), at: seconds(e.Failed.At), target: word(t.versions, string(e.Failed.Target))}
		if text, ok := t.errors.place(e.Failed.Error); ok {
			f.text = text
		} else {
			// A verdict is never refused for its words.
			f.text = word(t.errors, manyErrors)
		}
	}
	slot, there := t.search(e.ID)
	if !fits || !there && t.count >= t.limits.Hosts {
		return ErrFull
	}
	var at uint32
	if there {
		at = t.slots[slot] - 1
		r.name = t.record(at).name
	} else {
		at = uint32(t.count)
		if t.count%chunk == 0 {
			t.chunks = append(t.chunks, new([chunk]record))
		}
		t.count++
		t.slots[slot] = at + 1
	}
	r.name = t.names.replace(r.name, e.Hostname)
	*t.record(at) = r
	if r.flags&hasFailed != 0 {
		t.failures[at] = f
	} else {
		delete(t.failures, at)
	}
	if t.count*4 > len(t.slots)*3 {
		t.grow()
	}
	if t.names.wasted > t.names.size()/2 && t.names.wasted > 1<<20 {
		t.Forget(func(*Entry) bool { return false })
	}
	return nil
}

// manyErrors stands for the errors of hosts that there is no room for. Its place is
// taken when the table is made.
const manyErrors = "(too many different errors are kept already)"

func (t *Table) grow() {
	t.slots = make([]uint32, 2*len(t.slots))
	for at := range t.count {
		slot, _ := t.search(t.record(uint32(at)).id)
		t.slots[slot] = uint32(at) + 1
	}
}

// Forget removes the hosts that f returns true for, and words and names that none of
// the others has. It returns how many there were.
func (t *Table) Forget(f func(*Entry) bool) (forgotten int) {
	old := *t
	t.clear()
	var e Entry
	for at := range old.count {
		old.entry(uint32(at), &e)
		if f(&e) {
			forgotten++
			continue
		}
		t.Put(&e) // for which there was room before
		if (at+1)%chunk == 0 {
			old.chunks[at/chunk] = nil // the table is not to be there twice
		}
	}
	return forgotten
}

// Each calls f for each host, in no order, until it returns false. What f is given
// holds until it returns.
func (t *Table) Each(f func(*Entry) bool) { t.From(0, f) }

// From is Each for the hosts from a place on, and returns the place after the last one. Places
// are the same until hosts are forgotten; those of hosts that are new come last.
func (t *Table) From(place int, f func(*Entry) bool) (next int) {
	var e Entry
	return t.from(place, func(at uint32) bool {
		t.entry(at, &e)
		return f(&e)
	})
}

// Seen is From for whoever wants no more than when hosts were last seen, and the sequence of that report. That
// is all it reads.
func (t *Table) Seen(place int, f func(id *rollout.HostID, last time.Time, sequence uint32) bool) (next int) {
	return t.from(place, func(at uint32) bool {
		r := t.record(at)
		return f(&r.id, moment(r.lastSeen), r.sequence)
	})
}

func (t *Table) from(place int, f func(at uint32) bool) (next int) {
	for ; place < t.count; place++ {
		pause(place)
		if !f(uint32(place)) {
			return place + 1
		}
	}
	return place
}

// pause lets those go on, now and then, who wait for an answer. To yield the processor would
// not do: the network is looked at when there is nothing else to run.
func pause(at int) {
	if at%pauseEvery == pauseEvery-1 { // few hosts take no time
		time.Sleep(50 * time.Microsecond)
	}
}

// pauseEvery is a millisecond of work: each pause of a process with nothing else to do takes as long.
const pauseEvery = 4096
